"""A Bucket becomes a directory of files: with a real S3 server, and with ones that lie."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web

from controllers.source.bucket import BucketSource
from controllers.source.bucketplace import Found
from controllers.source.source import Scratch, Tree
from crds import BUCKET
from crds.meta import Artifact, ObjectMeta
from crds.source_bucket import Bucket, BucketSpec
from tests.fakes.objectfake import FakeObjectServer, listing, saying
from tests.fakes.objectservers import S3Server
from toolkit.artifact.limits import Limits
from toolkit.errors import PenstockError, TransientError
from toolkit.remote.cloud.identity import Bearer
from toolkit.remote.objectstore.objectstore import (
    BucketNotFoundError,
    ObjectChangedError,
    ObjectStore,
    ObjectStoreError,
    Place,
)


@dataclass(kw_only=True)
class There:
    """``Places`` where everything is at one place; notes what a cloud gets back."""

    place: Place
    lent: Bearer | None = None
    dropped: list[object] = field(default_factory=list)

    @property
    def cloud(self) -> "There":
        return self

    def drop(self, credential: object) -> None:
        self.dropped.append(credential)

    async def find(self, _obj: Bucket) -> Found:
        return Found(place=self.place, lent=self.lent)


@dataclass(kw_only=True)
class Work:
    """A source, and where it works."""

    source: BucketSource
    scratch: Path
    out: Path

    async def run(self, obj: Bucket) -> tuple[str, dict[str, bytes]]:
        """Resolve and fetch; return the revision, and the files by name."""
        async with Scratch(self.scratch) as scratch:
            upstream = await self.source.resolve(obj, scratch)
            await self.source.fetch(obj, upstream, self.out)
        return upstream.revision, files(self.out)


def files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def work(tmp_path: Path, place: Place, **fields: Any) -> Work:
    places: Any = There(place=place)
    out = tmp_path / "out"
    out.mkdir()
    source = BucketSource(**{"kind": BUCKET, "places": places, **fields})
    return Work(source=source, scratch=tmp_path / "scratch", out=out)


def bucket(**spec: Any) -> Bucket:
    given = {"endpoint": "unused", "bucket_name": "b", "interval": "1m", **spec}
    return Bucket(metadata=ObjectMeta(namespace="ns", name="app"), spec=BucketSpec(**given))


async def put(place: Place, **content: bytes) -> None:
    async with ObjectStore(place) as store:
        for key, data in content.items():
            await store.write_bytes(key, data)


async def test_objects_become_files(place: Place, tmp_path: Path) -> None:
    content = {"app/deploy.yaml": b"kind: Deployment", "README.md": b"", "日本/a b.yaml": b"x" * 9}
    await put(place, **content)

    revision, found = await work(tmp_path, place).run(bucket())

    assert found == content
    assert revision.startswith("sha256:")


async def test_the_same_objects_have_the_same_revision(place: Place, tmp_path: Path) -> None:
    await put(place, a=b"1", b=b"2")
    job = work(tmp_path, place)

    async with Scratch(job.scratch) as scratch:
        before = await job.source.resolve(bucket(), scratch)
        again = await job.source.resolve(bucket(), scratch)
        await put(place, b=b"3")
        after = await job.source.resolve(bucket(), scratch)

    assert before.revision == again.revision != after.revision


async def test_the_same_revision_elsewhere_may_be_other_content(
    s3: S3Server, tmp_path: Path
) -> None:
    one, other = await s3.place(), await s3.place()
    for number, each in enumerate((one, other)):
        await put(each, **{"a.yaml": b"x"})
        (tmp_path / str(number)).mkdir()
    found = []
    for number, each in enumerate((one, other)):
        made = work(tmp_path / str(number), each)
        async with Scratch(made.scratch) as scratch:
            found.append(await made.source.resolve(bucket(), scratch))

    # ETags are what the server says they are, and it may say so of anything.
    assert found[0].revision == found[1].revision
    assert [each.content_addressed for each in found] == [False, False]


async def test_prefix_and_rules_choose_what_is_taken(place: Place, tmp_path: Path) -> None:
    rules = b"*.md\n!keep.md\n"
    await put(place, **{".sourceignore": rules, "other/x": b"1"})
    await put(place, **{"app/a.yaml": b"1", "app/b.md": b"2", "app/keep.md": b"3"})
    await put(place, **{"app/drop.yaml": b"4", "app-too/picture.png": b"5"})

    _, found = await work(tmp_path, place).run(bucket(prefix="app", ignore="drop.yaml"))

    assert found.keys() == {"app/a.yaml", "app/keep.md", "app-too/picture.png"}


async def test_what_is_told_is_what_flux_tells(s3: S3Server, tmp_path: Path) -> None:
    place = await s3.place()
    await put(place, a=b"1", b=b"2")
    job, obj = work(tmp_path, place), bucket(bucket_name="config", ignore="*.md")

    async with Scratch(job.scratch) as scratch:
        upstream = await job.source.resolve(obj, scratch)
        fetched = await job.source.fetch(obj, upstream, job.out)
    artifact = Artifact(
        digest="sha256:x",
        last_update_time=datetime(2030, 1, 1, tzinfo=UTC).isoformat(),
        path="p",
        revision="sha256:abc",
        url="u",
    )

    assert fetched.summary == "stored artifact with 2 fetched files from 'config' bucket"
    assert fetched.filename == f"{upstream.revision.removeprefix('sha256:')}.tar.gz"
    assert job.source.message(obj, artifact) == "stored artifact: revision 'sha256:abc'"
    assert upstream.observed == {"observedIgnore": "*.md"}


async def test_nothing_more_is_left_out_when_it_is_packed(s3: S3Server, tmp_path: Path) -> None:
    place = await s3.place()
    await put(place, **{"a/.gitignore": b"1", "picture.png": b"2", ".sops.yaml": b"3"})
    job = work(tmp_path, place)

    async with Scratch(job.scratch) as scratch:
        upstream = await job.source.resolve(bucket(), scratch)
        fetched = await job.source.fetch(bucket(), upstream, job.out)

    assert isinstance(fetched.content, Tree)
    packed = {entry.name for entry in fetched.content.ignore.walk(job.out)}
    assert packed == {"a", "a/.gitignore", "picture.png", ".sops.yaml"}


async def test_an_empty_bucket_is_an_empty_artifact(s3: S3Server, tmp_path: Path) -> None:
    _, found = await work(tmp_path, await s3.place()).run(bucket())

    assert found == {}


async def test_a_bucket_that_does_not_exist_is_told(place: Place, tmp_path: Path) -> None:
    gone = replace(place, bucket="tests-nowhere")

    with pytest.raises(BucketNotFoundError, match="bucket 'tests-nowhere' not found") as caught:
        await work(tmp_path, gone).run(bucket())

    assert caught.value.reason == "BucketOperationFailed"


async def test_an_object_that_changes_after_the_listing_fails_the_pass(
    place: Place, tmp_path: Path
) -> None:
    await put(place, a=b"1", b=b"2")
    job = work(tmp_path, place)

    async with Scratch(job.scratch) as scratch:
        upstream = await job.source.resolve(bucket(), scratch)
        await put(place, b=b"3")
        with pytest.raises(ObjectChangedError, match="'b'"):
            await job.source.fetch(bucket(), upstream, job.out)


async def test_an_object_that_goes_after_the_listing_fails_the_pass(
    place: Place, tmp_path: Path
) -> None:
    await put(place, a=b"1", b=b"2")
    job = work(tmp_path, place)

    async with Scratch(job.scratch) as scratch:
        upstream = await job.source.resolve(bucket(), scratch)
        async with ObjectStore(place) as store:
            await store.delete(["b"])
        with pytest.raises(ObjectChangedError, match="'b'"):
            await job.source.fetch(bucket(), upstream, job.out)


async def test_bounds_hold_before_anything_is_fetched(s3: S3Server, tmp_path: Path) -> None:
    place = await s3.place()
    await put(place, a=b"1", b=b"22")

    with pytest.raises(TransientError, match="more than 1 objects"):
        await work(tmp_path, place, bounds=Limits(entries=1)).run(bucket())


@pytest.fixture
async def liar() -> AsyncIterator[FakeObjectServer]:
    async with FakeObjectServer(saying(404)) as running:
        yield running


def at(liar: FakeObjectServer) -> Place:
    return Place(provider="generic", endpoint=liar.endpoint, bucket="b", plain_http=True)


def having(*objects: tuple[str, str, int], content: bytes = b"x") -> Any:
    """Return what lists ``objects`` and sends the same content for each but the rules."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "list-type" in request.query:
            return web.Response(body=listing(*objects))
        key = unquote(request.path).removeprefix("/b/")
        known = {unquote(name): etag for name, etag, _ in objects}
        if key not in known:
            return web.Response(status=404)
        return web.Response(body=content, headers={"ETag": f'"{known[key]}"'})

    return answer


@pytest.mark.parametrize(
    "key", ["..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "a%00b", "a%2F%2Fb", "a%0Ab%201"]
)
async def test_a_key_that_leads_out_is_refused_before_it_is_asked_for(
    liar: FakeObjectServer, tmp_path: Path, key: str
) -> None:
    liar.answer = having(("good", "1", 1), (key, "2", 1))

    with pytest.raises(PenstockError, match="not a plain path"):
        await work(tmp_path, at(liar)).run(bucket())

    assert [asked.target.partition("?")[0] for asked in liar.asked] == ["/b/.sourceignore", "/b"]
    assert files(tmp_path / "out") == {}


@pytest.mark.parametrize(
    ("fails", "begins"),
    [
        # source-controller, controller/bucket_controller.go reconcileSource, fetchIndexFiles
        ("/b/.sourceignore", "failed to confirm existence of 'b' bucket: "),
        ("/b", "indexation of objects from bucket 'b' failed: "),
        ("/b/a", "fetch from bucket 'b' failed: "),
    ],
)
async def test_a_bucket_that_fails_is_told_as_flux_does(
    liar: FakeObjectServer, tmp_path: Path, fails: str, begins: str
) -> None:
    well = having(("a", "1", 1))

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=409) if request.path == fails else await well(request)

    liar.answer = answer

    with pytest.raises(ObjectStoreError) as caught:
        await work(tmp_path, at(liar)).run(bucket())

    assert str(caught.value).startswith(begins)


async def test_a_file_that_is_a_directory_too_is_refused(
    liar: FakeObjectServer, tmp_path: Path
) -> None:
    liar.answer = having(("a", "1", 1), ("a%2Fb", "2", 1))

    with pytest.raises(TransientError, match="'a' as a file and as the directory"):
        await work(tmp_path, at(liar)).run(bucket())


async def test_an_object_that_is_larger_than_listed_is_refused(
    liar: FakeObjectServer, tmp_path: Path
) -> None:
    liar.answer = having(("a", "1", 1), content=b"x" * 1000)

    with pytest.raises(ObjectStoreError, match="larger than 1 bytes"):
        await work(tmp_path, at(liar)).run(bucket())

    assert files(tmp_path / "out") == {}


async def test_rules_that_are_too_long_are_refused(liar: FakeObjectServer, tmp_path: Path) -> None:
    liar.answer = having((".sourceignore", "1", 1), content=b"x" * (1 << 20))

    with pytest.raises(ObjectStoreError, match=r"'\.sourceignore'"):
        await work(tmp_path, at(liar)).run(bucket())


async def test_no_more_objects_are_fetched_at_a_time_than_allowed(
    liar: FakeObjectServer, tmp_path: Path
) -> None:
    objects = tuple((f"object-{number}", str(number), 1) for number in range(60))
    send, now, most = having(*objects), 0, 0
    full = asyncio.Event()

    async def counting(request: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 7:
            full.set()
        if "object-" in request.path:
            await full.wait()
        await asyncio.sleep(0.005)
        now -= 1
        answer: web.StreamResponse = await send(request)
        return answer

    liar.answer = counting
    _, found = await work(tmp_path, at(liar), parallel=7).run(bucket())

    assert len(found) == 60
    assert most == 7


async def test_a_server_that_is_too_slow_is_given_up_at_the_timeout(
    liar: FakeObjectServer, tmp_path: Path
) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    liar.answer = slow

    with pytest.raises(ObjectStoreError, match=r"within|no response") as caught:
        await work(tmp_path, at(liar)).run(bucket(timeout="200ms"))

    assert caught.value.reason == "BucketOperationFailed"
    assert files(tmp_path / "out") == {}


async def test_a_lent_credential_that_is_refused_is_given_back(
    liar: FakeObjectServer, tmp_path: Path
) -> None:
    liar.answer = saying(403)
    lent = Bearer(token="stale", expires_at=datetime(2030, 1, 1, tzinfo=UTC))
    places: Any = There(place=at(liar), lent=lent)

    with pytest.raises(ObjectStoreError, match="403"):
        await work(tmp_path, at(liar), places=places).run(bucket())

    assert places.dropped == [lent]
