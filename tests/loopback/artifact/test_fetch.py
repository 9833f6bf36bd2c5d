"""The consumer against servers good and bad."""

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from crds.meta import ORIGINS, Artifact
from tests.fakes.bucketreplicas import OWNER
from tests.fakes.serving import Serve, closed_port
from toolkit.artifact.fetch import Extracted, Fetcher
from toolkit.artifact.limits import PACKED, Limits
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError, WaitingError
from toolkit.remote.http.http import Endpoint, Http, HttpError


class Fake:
    """A server that answers as it is told, one status after the other, and then serves."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.statuses: list[int] = []
        self.requests: list[web.Request] = []
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.asked.set()
        await self.go.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            return await self._break_off(request)
        if status in (301, 302):
            raise web.HTTPFound("/elsewhere")
        return web.Response(status=status, body=self.content if status == 200 else b"")

    async def _break_off(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = len(self.content)
        await response.prepare(request)
        await response.write(self.content[: len(self.content) // 2])
        assert request.transport is not None
        request.transport.abort()
        return response


@pytest.fixture
def fake(storage: Storage, artifact: Artifact) -> Fake:
    return Fake(storage.path(artifact).read_bytes())


@pytest.fixture
async def elsewhere(fake: Fake, serve: Serve) -> str:
    return await serve(fake.application())


@pytest.fixture
async def fetcher(tmp_path: Path, elsewhere: str) -> AsyncIterator[Fetcher]:
    async with Fetcher(
        tmp_path / "cache", host_override=elsewhere, retries=3, retry_delay=0.001
    ) as fetcher:
        yield fetcher


async def files(fetcher: Fetcher, artifact: Artifact, owner: Owner | None = None) -> dict[str, str]:
    async with fetcher.extracted(artifact, owner) as extracted:
        return {
            path.relative_to(extracted.path).as_posix(): path.read_text()
            for path in extracted.path.rglob("*")
            if path.is_file()
        }


CONTENT = {"app/a.yaml": "a: 1\n", "run.sh": "#!/bin/sh\n"}


async def test_what_was_stored_is_what_is_extracted(
    tmp_path: Path, artifact: Artifact, address: str
) -> None:
    async with Fetcher(tmp_path / "cache", host_override=address) as fetcher:
        assert await files(fetcher, artifact) == CONTENT


async def test_the_url_is_used_as_it_is_without_an_override(
    tmp_path: Path, artifact: Artifact, address: str
) -> None:
    here = msgspec.structs.replace(artifact, url=f"http://{address}/{artifact.path}")

    async with Fetcher(tmp_path / "cache") as fetcher:
        assert await files(fetcher, here) == CONTENT


async def test_many_users_cause_one_download(
    fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    async def path() -> Path:
        async with fetcher.extracted(artifact) as extracted:
            return extracted.path

    paths = await asyncio.gather(*(path() for _ in range(50)))

    assert len(set(paths)) == 1
    assert len(fake.requests) == 1
    assert fake.requests[0].path == f"/{artifact.path}"


async def test_one_who_gives_up_does_not_disturb_the_others(
    fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    fake.go.clear()
    users = [asyncio.create_task(files(fetcher, artifact)) for _ in range(3)]
    await fake.asked.wait()

    users[0].cancel()
    await asyncio.sleep(0)
    fake.go.set()

    assert await users[1] == await users[2] == CONTENT
    assert len(fake.requests) == 1


@pytest.mark.parametrize("statuses", [[500], [503, 502, 429], [0], [0, 500, 0]])
async def test_what_may_come_right_is_tried_again(
    fetcher: Fetcher, artifact: Artifact, fake: Fake, statuses: list[int]
) -> None:
    fake.statuses = [*statuses]

    assert await files(fetcher, artifact) == CONTENT
    assert len(fake.requests) == len(statuses) + 1


async def test_it_is_not_tried_for_ever(fetcher: Fetcher, artifact: Artifact, fake: Fake) -> None:
    fake.statuses = [500] * 10

    with pytest.raises(TransientError, match="the server fails") as error:
        await files(fetcher, artifact)

    assert error.value.reason == "ArtifactFailed"
    assert len(fake.requests) == 4


async def test_an_artifact_that_is_gone_is_waited_for(
    fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    fake.statuses = [404]

    with pytest.raises(WaitingError, match="not found") as error:
        await files(fetcher, artifact)

    assert error.value.retry_after is None
    assert len(fake.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 302, 204])
async def test_what_will_not_come_right_is_told_at_once(
    fetcher: Fetcher, artifact: Artifact, fake: Fake, status: int
) -> None:
    fake.statuses = [status]

    with pytest.raises(TransientError, match="the server refuses it"):
        await files(fetcher, artifact)

    assert len(fake.requests) == 1


async def test_nothing_is_told_of_what_stands_at_an_address(
    fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    """Who may write an ExternalArtifact has us ask any address, and reads the message."""
    secret = b"a-guessable-answer"
    told = set()
    for status in (401, 403, 302, 204):
        fake.statuses = [status]
        told.add(await said(fetcher, artifact))
    fake.content = secret
    mismatch = await said(fetcher, artifact)

    assert told == {f"artifact {artifact.url} cannot be fetched: the server refuses it"}
    assert hashlib.sha256(secret).hexdigest() not in mismatch
    assert str(len(secret)) not in mismatch.replace(artifact.url, "").replace(artifact.digest, "")


async def said(fetcher: Fetcher, artifact: Artifact) -> str:
    with pytest.raises(TransientError) as caught:
        await files(fetcher, artifact)
    return str(caught.value)


PLAIN = Endpoint(plain_http=True)


async def test_banner_of_another_protocol_is_not_quoted(tmp_path: Path) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-secret-build\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    artifact = Artifact(
        path="x",
        url=f"http://127.0.0.1:{port}/x",
        revision="1",
        digest="sha256:" + "0" * 64,
        last_update_time="2026-01-01T00:00:00Z",
    )
    async with server, Fetcher(tmp_path / "own", retries=0) as fetcher:
        told = await said(fetcher, artifact)
        async with Http() as http:
            with pytest.raises(HttpError) as caught:
                async with http.request("GET", artifact.url, endpoint=PLAIN, timeout=5):
                    pass

    for message in (told, str(caught.value)):
        assert message.endswith("the response is not HTTP")


async def test_a_wrong_digest_is_refused_before_anything_is_unpacked(
    fetcher: Fetcher, artifact: Artifact, fake: Fake, tmp_path: Path
) -> None:
    fake.content = gzip.compress(b"something else")

    with pytest.raises(TransientError, match=f"does not have the digest {artifact.digest}"):
        await files(fetcher, artifact)

    assert not list((tmp_path / "cache").glob("*/*"))
    assert len(fake.requests) == 1


async def test_a_failure_is_not_kept(fetcher: Fetcher, artifact: Artifact, fake: Fake) -> None:
    good, fake.content = fake.content, b"bad"
    with pytest.raises(TransientError):
        await files(fetcher, artifact)

    fake.content = good

    assert await files(fetcher, artifact) == CONTENT


async def test_what_is_no_tarball_is_refused(
    fetcher: Fetcher, artifact: Artifact, fake: Fake, tmp_path: Path
) -> None:
    fake.content = b"not a tarball"
    digest = f"sha256:{hashlib.sha256(fake.content).hexdigest()}"

    with pytest.raises(TransientError, match="not a readable tarball"):
        await files(fetcher, msgspec.structs.replace(artifact, digest=digest))

    assert not list((tmp_path / "cache").glob("*/*"))


async def test_too_large_an_artifact_is_refused_by_what_it_announces(
    tmp_path: Path, artifact: Artifact
) -> None:
    async def announce(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {PACKED + 1}\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(announce, "127.0.0.1", 0)
    here = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Fetcher(tmp_path / "own", host_override=here, retries=0) as fetcher:
        assert (await said(fetcher, artifact)).endswith(f"is larger than {PACKED >> 20} MiB")


async def test_a_disk_that_refuses_is_told(
    tmp_path: Path, fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    fake.go.clear()
    fetching = asyncio.create_task(said(fetcher, artifact))
    await fake.asked.wait()
    for copy in (tmp_path / "cache").glob("*/*"):
        copy.rename(copy.with_name("gone"))
    fake.go.set()

    assert (await fetching).endswith("cannot be kept: No such file or directory")


@pytest.mark.parametrize("digest", ["md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:../../x", ""])
async def test_a_digest_that_cannot_be_checked_is_refused(
    fetcher: Fetcher, artifact: Artifact, fake: Fake, digest: str
) -> None:
    with pytest.raises(TransientError, match="cannot be checked"):
        await files(fetcher, msgspec.structs.replace(artifact, digest=digest))

    assert fake.requests == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "no url"])
async def test_only_http_is_spoken(fetcher: Fetcher, artifact: Artifact, url: str) -> None:
    with pytest.raises(TransientError, match="not HTTP"):
        await files(fetcher, msgspec.structs.replace(artifact, url=url))


async def test_too_large_a_content_is_refused(
    tmp_path: Path, artifact: Artifact, elsewhere: str
) -> None:
    async with Fetcher(
        tmp_path / "cache", host_override=elsewhere, bounds=Limits(entries=1)
    ) as fetcher:
        with pytest.raises(TransientError, match="more than 1 files"):
            await files(fetcher, artifact)


async def test_a_server_that_is_down_is_told(tmp_path: Path, artifact: Artifact) -> None:
    async with AsyncExitStack() as stack:
        nobody = stack.enter_context(closed_port())
        fetcher = Fetcher(tmp_path / "cache", host_override=nobody, retries=1, retry_delay=0.001)
        await stack.enter_async_context(fetcher)

        with pytest.raises(TransientError, match="cannot fetch"):
            await files(fetcher, artifact)


def by_penstock(artifact: Artifact) -> Artifact:
    return msgspec.structs.replace(artifact, metadata={ORIGINS: "[]"})


@pytest.mark.parametrize("statuses", [[503] * 10, [0] * 10])
async def test_predecessor_that_does_not_answer_is_asked_once(
    fetcher: Fetcher, artifact: Artifact, fake: Fake, statuses: list[int]
) -> None:
    """After a move, the status of a source has the URL of Flux's source controller."""
    fake.statuses = [*statuses]

    with pytest.raises(WaitingError, match="waiting until Penstock has fetched the") as error:
        await files(fetcher, artifact, OWNER)

    assert f"{OWNER.kind} '{OWNER.namespace}/{OWNER.name}'" in str(error.value)
    assert artifact.url in str(error.value)
    assert len(fake.requests) == 1


async def test_predecessor_whose_host_is_gone_is_asked_once(
    tmp_path: Path, artifact: Artifact
) -> None:
    async with AsyncExitStack() as stack:
        nobody = stack.enter_context(closed_port())
        fetcher = Fetcher(tmp_path / "cache", host_override=nobody, retries=9, retry_delay=600)
        await stack.enter_async_context(fetcher)

        with pytest.raises(WaitingError, match="stored by another source controller"):
            await files(fetcher, artifact, OWNER)


async def test_predecessor_that_still_answers_serves_its_artifact(
    fetcher: Fetcher, artifact: Artifact
) -> None:
    assert await files(fetcher, artifact, OWNER) == CONTENT


async def test_own_store_that_restarts_is_asked_again(
    fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    fake.statuses = [503, 503]

    assert await files(fetcher, by_penstock(artifact), OWNER) == CONTENT
    assert len(fake.requests) == 3


async def test_third_party_that_restarts_is_asked_again(
    fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    """An ExternalArtifact never has a record of Penstock's, and Penstock does not replace it."""
    fake.statuses = [503, 503]
    elsewhere = msgspec.structs.replace(artifact, url="http://party.test/files/a.tar.gz")
    owner = Owner(kind="ExternalArtifact", namespace="apps", name="made")

    assert await files(fetcher, elsewhere, owner) == CONTENT
    assert len(fake.requests) == 3


async def test_the_bytes_are_asked_for_as_they_are(
    fetcher: Fetcher, artifact: Artifact, fake: Fake
) -> None:
    await files(fetcher, artifact)

    assert fake.requests[0].headers["Accept-Encoding"] == "identity"


async def test_a_cancelled_download_leaves_nothing(
    fetcher: Fetcher, artifact: Artifact, fake: Fake, tmp_path: Path
) -> None:
    fake.go.clear()
    user = asyncio.create_task(files(fetcher, artifact))
    await fake.asked.wait()

    user.cancel()

    with pytest.raises(asyncio.CancelledError):
        await user
    assert not list((tmp_path / "cache").glob("*/*"))
    fake.go.set()


async def test_the_copy_knows_which_files_hold_ciphertext(
    fetcher: Fetcher, artifact: Artifact
) -> None:
    async with fetcher.extracted(artifact) as extracted:
        assert isinstance(extracted, Extracted)
        assert await extracted.encrypted() == frozenset()


THEIRS = Owner(kind="ExternalArtifact", namespace="tenant", name="theirs")


async def test_digest_alone_opens_nobody_elses_copy(
    tmp_path: Path, artifact: Artifact, address: str, serve: Serve
) -> None:
    empty = await serve(Fake(gzip.compress(b"")).application())
    private = msgspec.structs.replace(artifact, url=f"http://{address}/{artifact.path}")
    claimed = msgspec.structs.replace(artifact, url=f"http://{empty}/1.tar.gz")

    async with Fetcher(tmp_path / "cache", retries=0) as fetcher:
        async with fetcher.extracted(private, OWNER):
            with pytest.raises(TransientError, match="does not have the digest"):
                async with fetcher.extracted(claimed, THEIRS):
                    pass
        with pytest.raises(TransientError, match="of another object"):
            async with fetcher.extracted(private, THEIRS):
                pass


async def test_metadata_service_serves_no_artifacts(tmp_path: Path, artifact: Artifact) -> None:
    there = msgspec.structs.replace(artifact, url="http://169.254.169.254/latest/1.tar.gz")

    async with Fetcher(tmp_path / "cache") as fetcher:
        with pytest.raises(TransientError, match="has the address of a metadata service"):
            await files(fetcher, there)
