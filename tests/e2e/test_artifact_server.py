"""What the source component serves to consumers: stored artifacts as they were stored, no more."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio

from tests.e2e.conftest import GIT_REPOSITORY, NAMESPACE, Space, World, revision_of
from tests.e2e.sources import artifact_of, content, digest_of, fetches
from tests.tools.waiting import until
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

RETENTION = ("--artifact-retention-ttl=1s", "--artifact-retention-records=1")


@dataclass(frozen=True)
class Earlier:
    """A source that was stored before the process started anew."""

    space: Space
    source: Json


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def earlier(world: World) -> AsyncIterator[Earlier]:
    """Have the process start anew under another address, and old artifacts go soon."""
    stack, usual = world.stack, world.stack.options.flags["source"]
    space = Space(world=world, namespace=f"test-{secrets.token_hex(4)}")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space.namespace}}
    await world.api.create(namespace)
    before = await stored(space)
    address = stack.storage_address.replace("127.0.0.1", "localhost")
    await stack.restart("source", flags=[*usual, *RETENTION, f"--storage-adv-addr={address}"])
    yield Earlier(space, before)
    await stack.restart("source", flags=usual)
    await world.api.delete(NAMESPACE, space.namespace)


@dataclass(frozen=True)
class Answer:
    """What an HTTP server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def ask(url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=headers) as response,
    ):
        return Answer(response.status, response.headers, await response.read())


async def ask_raw(address: str, target: str) -> tuple[int, bytes]:
    """Ask for a path exactly as it is written; clients would tidy it up."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = f"GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]), answer.partition(b"\r\n\r\n")[2]


async def stored(space: Space, **files: str) -> Json:
    repository = space.repository()
    repository.commit(files or {"a": "1"})
    await space.world.apply(space.source(repository))
    return await space.ready(GIT_REPOSITORY)


async def test_artifact_comes_whole_in_parts_or_not_again(space: Space) -> None:
    artifact = artifact_of(await stored(space))
    url, tag, size = artifact["url"], f'"{artifact["digest"]}"', artifact["size"]

    whole = await ask(url)
    again = await ask(url, headers={"If-None-Match": tag})
    changed = await ask(url, headers={"If-None-Match": '"sha256:other"'})
    part = await ask(url, headers={"Range": "bytes=10-19"})
    tail = await ask(url, headers={"Range": "bytes=-5"})
    stale = await ask(url, headers={"Range": "bytes=10-19", "If-Range": '"sha256:other"'})
    beyond = await ask(url, headers={"Range": f"bytes={size}-"})
    head = await ask(url, method="HEAD")
    latest = await ask(url.rpartition("/")[0] + "/latest.tar.gz")

    assert (whole.status, len(whole.body)) == (200, size)
    assert whole.headers["ETag"] == tag
    assert whole.headers["X-Artifact-Digest"] == artifact["digest"]
    assert whole.headers["Content-Type"] == "application/gzip"
    assert (again.status, again.body) == (304, b"")
    assert (changed.status, changed.body) == (200, whole.body)
    assert (part.status, part.body) == (206, whole.body[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{size}"
    assert (tail.status, tail.body) == (206, whole.body[-5:])
    assert (stale.status, stale.body) == (200, whole.body)
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, f"bytes */{size}")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(size)
    assert (latest.status, latest.body) == (200, whole.body)


async def test_nothing_but_artifacts_can_be_read(space: Space) -> None:
    source = await stored(space)
    root, address = space.world.stack.layout.storage, space.world.stack.storage_address
    path = artifact_of(source)["path"]
    folder, _, name = path.rpartition("/")
    hidden = [entry.name for entry in (root / folder).iterdir() if entry.name.startswith(".")]
    (root.parent / "outside.tar.gz").write_text("outside")
    (root / "loose.tar.gz").write_text("outside")
    (root / folder / "away.tar.gz").symlink_to(root.parent / "outside.tar.gz")
    deep = "gitrepository/x/y"
    targets = [
        *("/", "//", "/gitrepository", "/gitrepository/", f"/{folder}"),
        *(f"/{folder}/{entry}" for entry in (*hidden, ".lock", "away.tar.gz")),
        *(f"/{path}/", f"//{path}", f"/./{path}", f"/{folder}/./{name}", f"/{path}%00"),
        *("/loose.tar.gz", "/../outside.tar.gz", f"/{deep}/../../../../outside.tar.gz"),
        *("/%2e%2e/outside.tar.gz", "/..%2foutside.tar.gz", "/..%5coutside.tar.gz"),
        *(f"/{deep}/..%2f..%2f..%2f..%2foutside.tar.gz", "/%252e%252e/outside.tar.gz"),
        *("/gitrepository/%2e%2e/%2e%2e/outside.tar.gz", "/gitrepository/../../outside.tar.gz"),
        *(f"/{root.parent}/outside.tar.gz", "/etc/passwd", "/%2fetc/passwd", "/.scratch/a/b/c"),
    ]

    answers = {target: await ask_raw(address, target) for target in targets}
    # What is kept of a source is told to who may list sources there (``toolkit.artifact.index``).
    listing = {where: await ask_raw(address, where) for where in (f"/{folder}/", f"/{deep}/")}
    refused = {method: await ask(f"http://{address}/{path}", method=method) for method in WRITES}

    wrong = {target: answer for target, answer in answers.items() if answer[0] not in {400, 404}}
    assert not wrong
    assert {status for status, _ in listing.values()} == {401}
    assert len({body for _, body in listing.values()}) == 1
    assert not any(b"outside" in body or b"root:" in body for _, body in answers.values())
    assert {answer.status for answer in refused.values()} == {405}
    assert (await ask_raw(address, f"/{path}"))[0] == 200


WRITES = ("PUT", "POST", "DELETE", "PATCH")


async def test_damaged_artifact_is_not_served(space: Space) -> None:
    source = await stored(space)
    path = space.world.stack.layout.storage / artifact_of(source)["path"]
    good = path.read_bytes()

    path.write_bytes(good[:-1] + b"?")
    damaged = await ask(artifact_of(source)["url"])
    await space.request(GIT_REPOSITORY)
    mended = await space.ready(GIT_REPOSITORY)

    assert damaged.status == 404
    assert await content(mended) == {"a": "1"}
    assert path.read_bytes() == good


async def test_old_artifacts_go_and_the_last_one_stays(space: Space) -> None:
    first = await stored(space)
    folder = space.world.stack.layout.storage / artifact_of(first)["path"]
    for number in range(2, 5):
        commit = space.repositories[0].commit({"a": str(number)})
        await space.request(GIT_REPOSITORY)
        last = await space.ready(GIT_REPOSITORY, revision=commit)

    name = artifact_of(last)["path"].rpartition("/")[2]
    expected = {name, f".digest-{name}", f".about-{name}", "latest.tar.gz"}

    async def collected() -> bool:
        await space.request(GIT_REPOSITORY)  # each pass looks whether the time of old ones is over
        return {path.name for path in folder.parent.iterdir()} == expected

    await until(collected)
    assert (await ask(artifact_of(first)["url"])).status == 404
    assert await content(last) == {"a": "4"}


async def test_restart_serves_what_is_there_under_the_new_address(earlier: Earlier) -> None:
    space, before = earlier.space, earlier.source
    address = space.world.stack.storage_address.replace("127.0.0.1", "localhost")

    await space.request(GIT_REPOSITORY)
    after = await space.ready(GIT_REPOSITORY)

    moved = artifact_of(before) | {"url": f"http://{address}/{artifact_of(before)['path']}"}
    assert artifact_of(after) == moved
    assert await content(after) == {"a": "1"}
    assert fetches(space.world.git, space.repositories[0]) == 1
    assert (digest_of(after), revision_of(after)) == (digest_of(before), revision_of(before))
