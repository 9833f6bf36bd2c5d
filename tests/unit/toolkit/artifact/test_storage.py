"""Artifacts appear whole or not at all, stay as long as they should, and damage is noticed."""

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crds.meta import Artifact
from tests.fakes.fulldisk import files_at_most
from toolkit.artifact import limits
from toolkit.artifact.ignore import Entry, Ignore
from toolkit.artifact.storage import Owner, Storage, Store
from toolkit.errors import StalledError, TransientError

OWNER = Owner(kind="GitRepository", namespace="apps", name="web")
IGNORE = Ignore.from_rules(None)
HERE = "gitrepository/apps/web"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.yaml").write_text("a: 1\n")
    return tree


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "root", advertised="artifacts.test:9090")


async def stored(
    storage: Storage, tree: Path, filename: str = "abc.tar.gz", ignore: Ignore = IGNORE
) -> Artifact:
    return await storage.store(
        OWNER, revision="main@sha1:abc", filename=filename, tree=tree, ignore=ignore
    )


def listing(storage: Storage) -> list[str]:
    directory = storage.root / HERE
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def leftovers(storage: Storage) -> list[str]:
    return [path.name for path in storage.root.rglob(".tmp-*")]


def age(storage: Storage, name: str, seconds: float) -> None:
    path = storage.root / HERE / name
    moment = path.stat().st_mtime - seconds
    os.utime(path, (moment, moment))


def test_the_local_directory_is_a_store(storage: Storage) -> None:
    store: Store = storage

    assert store is storage


async def test_an_artifact_says_where_it_is_and_what(storage: Storage, tree: Path) -> None:
    artifact = await storage.store(
        OWNER,
        revision="main@sha1:abc",
        filename="abc.tar.gz",
        tree=tree,
        ignore=IGNORE,
        metadata={"org.opencontainers.image.title": "x"},
    )

    file = storage.root / HERE / "abc.tar.gz"
    assert artifact.path == f"{HERE}/abc.tar.gz"
    assert artifact.url == f"http://artifacts.test:9090/{HERE}/abc.tar.gz"
    assert artifact.digest == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert artifact.size == file.stat().st_size
    assert artifact.revision == "main@sha1:abc"
    assert artifact.metadata == {"org.opencontainers.image.title": "x"}
    assert artifact.last_update_time.endswith("Z")
    assert leftovers(storage) == []


async def test_the_link_names_the_newest(storage: Storage, tree: Path) -> None:
    await stored(storage, tree, "one.tar.gz")
    await stored(storage, tree, "two.tar.gz")

    link = storage.root / HERE / "latest.tar.gz"
    assert link.is_symlink()
    assert str(link.readlink()) == "two.tar.gz"


async def test_content_that_is_there_is_not_written_again(storage: Storage, tree: Path) -> None:
    first = await stored(storage, tree)
    file = storage.path(first)
    before = file.stat()

    second = await stored(storage, tree)

    assert second == first
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert leftovers(storage) == []


async def test_the_same_revision_with_other_content_replaces_it(
    storage: Storage, tree: Path
) -> None:
    first = await stored(storage, tree)
    (tree / "b.yaml").write_text("b: 1\n")

    second = await stored(storage, tree)

    assert second.digest != first.digest
    assert await storage.intact(second)
    assert not await storage.intact(first)


@pytest.mark.parametrize("name", ["../x.tar.gz", ".x", "a/b", "", "..", "x\0"])
async def test_a_filename_that_leads_elsewhere_is_refused(
    storage: Storage, tree: Path, name: str
) -> None:
    with pytest.raises(StalledError, match="not valid in an artifact path"):
        await stored(storage, tree, name)

    assert not storage.root.exists()


@pytest.mark.parametrize(
    "path", ["gitrepository/apps/web/../../../../etc/passwd", "/etc/passwd", "", "a/b/c/.d"]
)
async def test_an_artifact_outside_the_store_is_not_intact(storage: Storage, path: str) -> None:
    artifact = Artifact(digest="sha256:x", last_update_time="", path=path, revision="", url="")

    assert not await storage.intact(artifact)


async def damaged(storage: Storage, tree: Path, damage: Callable[[Path], object]) -> bool:
    artifact = await stored(storage, tree)
    assert await storage.intact(artifact)
    damage(storage.path(artifact))
    return not await storage.intact(artifact)


def keep_times(path: Path, content: bytes) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"other"),
        lambda path: os.truncate(path, 10),
        lambda path: keep_times(path, b"\0\0\0"),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["missing", "rewritten", "truncated", "changed with its times kept", "a directory"],
)
async def test_damage_is_noticed(
    storage: Storage, tree: Path, damage: Callable[[Path], object]
) -> None:
    assert await damaged(storage, tree, damage)


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
async def test_a_damaged_artifact_is_mended_by_storing_it_again(
    storage: Storage, tree: Path, damage: Callable[[Path], object]
) -> None:
    assert await damaged(storage, tree, damage)

    artifact = await stored(storage, tree)

    assert await storage.intact(artifact)


async def test_a_restart_loses_nothing(storage: Storage, tree: Path) -> None:
    artifact = await stored(storage, tree)

    restarted = Storage(storage.root, advertised="elsewhere")

    assert await restarted.intact(artifact)
    opened = await restarted.open(artifact.path)
    assert opened is not None
    with opened.file:
        assert opened.intact


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
async def test_other_digests_of_flux_are_checked(
    storage: Storage, tree: Path, algorithm: str
) -> None:
    artifact = await stored(storage, tree)
    content = storage.path(artifact).read_bytes()
    right = f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"
    wrong = f"{algorithm}:{hashlib.new(algorithm, b'x').hexdigest()}"

    assert await storage.intact(_with_digest(artifact, right))
    assert not await storage.intact(_with_digest(artifact, wrong))


@pytest.mark.parametrize("digest", ["md5:x", "sha256", "", "blake3:aa"])
async def test_a_digest_that_cannot_be_checked_is_not_believed(
    storage: Storage, tree: Path, digest: str
) -> None:
    artifact = await stored(storage, tree)

    assert not await storage.intact(_with_digest(artifact, digest))


def _with_digest(artifact: Artifact, digest: str) -> Artifact:
    return Artifact(
        digest=digest, last_update_time="", path=artifact.path, revision="", url=artifact.url
    )


async def test_old_artifacts_go_and_the_newest_stay(storage: Storage, tree: Path) -> None:
    for count, name in enumerate(("one.tar.gz", "two.tar.gz", "three.tar.gz")):
        await stored(storage, tree, name)
        age(storage, name, 1000 - count)
    current = await stored(storage, tree, "four.tar.gz")

    removed = await storage.collect(OWNER, current=current)

    assert removed == ("two.tar.gz", "one.tar.gz")
    assert listing(storage) == ["four.tar.gz", "latest.tar.gz", "three.tar.gz"]
    assert len(list(storage.root.rglob(".digest-*"))) == 2


async def test_the_current_artifact_never_goes(storage: Storage, tree: Path) -> None:
    current = await stored(storage, tree, "one.tar.gz")
    age(storage, "one.tar.gz", 5000)
    await stored(storage, tree, "two.tar.gz")
    await stored(storage, tree, "three.tar.gz")

    assert await storage.collect(OWNER, current=current) == ()


async def test_what_a_killed_process_left_half_written_goes(storage: Storage, tree: Path) -> None:
    current = await stored(storage, tree)
    (storage.root / HERE / ".tmp-killed").write_bytes(b"half")
    age(storage, ".tmp-killed", 1000)

    await storage.collect(OWNER, current=current)

    assert leftovers(storage) == []
    assert await storage.intact(current)


async def test_collecting_for_an_owner_without_artifacts_is_nothing(storage: Storage) -> None:
    assert await storage.collect(OWNER, current=None) == ()


async def test_an_owner_is_removed_and_its_neighbours_stay(storage: Storage, tree: Path) -> None:
    artifact = await stored(storage, tree)
    other = Owner(kind="GitRepository", namespace="apps", name="web2")
    neighbour = await storage.store(
        other, revision="", filename="x.tar.gz", tree=tree, ignore=IGNORE
    )

    await storage.remove(OWNER)
    await storage.remove(OWNER)

    assert not await storage.intact(artifact)
    assert await storage.intact(neighbour)


class Failing(Ignore):
    """Rules whose walk ends as a disk does that has no room left."""

    def walk(self, tree: Path) -> Iterator[Entry]:
        yield from super().walk(tree)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_full_disk_is_told_and_leaves_the_last_artifact(
    storage: Storage, tree: Path
) -> None:
    good = await stored(storage, tree, "good.tar.gz")

    with pytest.raises(TransientError, match=r"cannot store .*No space left .*free space") as error:
        await stored(storage, tree, "next.tar.gz", Failing())

    assert error.value.reason == "ArchiveOperationFailed"
    assert listing(storage) == ["good.tar.gz", "latest.tar.gz"]
    assert leftovers(storage) == []
    assert await storage.intact(good)
    assert str((storage.root / HERE / "latest.tar.gz").readlink()) == "good.tar.gz"


async def test_a_write_that_the_system_refuses_leaves_nothing(storage: Storage, tree: Path) -> None:
    good = await stored(storage, tree, "good.tar.gz")
    (tree / "big").write_bytes(os.urandom(3 << 20))

    with files_at_most(64 << 10), pytest.raises(TransientError, match="cannot store artifact"):
        await stored(storage, tree, "next.tar.gz")

    assert leftovers(storage) == []
    assert await storage.intact(good)
    assert await storage.intact(await stored(storage, tree, "next.tar.gz"))


async def test_the_store_tells_what_it_keeps(storage: Storage, tree: Path) -> None:
    for number in range(3):
        (tree / "a.yaml").write_text(f"a: {number}\n")
        await storage.store(
            OWNER,
            revision=f"main@sha1:{number}",
            filename=f"{number}.tar.gz",
            tree=tree,
            ignore=IGNORE,
            metadata={"source.penstock.dev/verified": "by Ada"},
        )
        age(storage, f"{number}.tar.gz", 30 - 10 * number)
    (storage.root / HERE / "strange.tar.gz").write_bytes(b"nobody vouches for this")

    kept = await storage.kept(OWNER)

    assert [(each.file, each.revision) for each in kept] == [
        ("2.tar.gz", "main@sha1:2"),
        ("1.tar.gz", "main@sha1:1"),
        ("0.tar.gz", "main@sha1:0"),
    ]
    assert kept[0].metadata == {"source.penstock.dev/verified": "by Ada"}
    assert [each.expires for each in kept] == [None, None, kept[2].modified + 60]


async def test_the_same_content_under_another_revision_is_told_anew(
    storage: Storage, tree: Path
) -> None:
    await stored(storage, tree)

    await storage.store(
        OWNER, revision="release@sha1:abc", filename="abc.tar.gz", tree=tree, ignore=IGNORE
    )

    (kept,) = await storage.kept(OWNER)
    assert kept.revision == "release@sha1:abc"


async def test_a_file_of_an_older_store_has_no_revision(storage: Storage, tree: Path) -> None:
    artifact = await stored(storage, tree)
    (storage.root / HERE / ".about-abc.tar.gz").unlink()

    (kept,) = await storage.kept(OWNER)

    assert (kept.digest, kept.size, kept.revision) == (artifact.digest, artifact.size, "")


async def test_what_is_told_of_other_content_is_not_believed(storage: Storage, tree: Path) -> None:
    await stored(storage, tree)
    about = storage.root / HERE / ".about-abc.tar.gz"
    about.write_text('{"digest": "sha256:0", "revision": "forged"}')

    (kept,) = await storage.kept(OWNER)

    assert kept.revision == ""


async def test_metadata_without_end_are_not_kept(storage: Storage, tree: Path) -> None:
    await storage.store(
        OWNER,
        revision="1",
        filename="abc.tar.gz",
        tree=tree,
        ignore=IGNORE,
        metadata={"x": "y" * (65 << 10)},
    )

    (kept,) = await storage.kept(OWNER)

    assert (kept.revision, kept.metadata) == ("1", {})


async def test_nothing_is_kept_of_whom_nobody_knows(storage: Storage) -> None:
    assert await storage.kept(OWNER) == ()


async def test_a_cancelled_store_leaves_nothing(storage: Storage, tree: Path) -> None:
    reached, release = threading.Event(), threading.Event()

    class Waiting(Ignore):
        def walk(self, tree: Path) -> Iterator[Entry]:
            reached.set()
            release.wait()
            yield from super().walk(tree)

    task = asyncio.create_task(stored(storage, tree, "x.tar.gz", Waiting()))
    await asyncio.to_thread(reached.wait)
    task.cancel()
    await asyncio.sleep(0)  # the thread goes on only after the cancellation was delivered
    release.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert listing(storage) == []
    assert leftovers(storage) == []


async def test_writers_of_one_owner_wait_for_each_other(storage: Storage, tree: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    class Counting(Ignore):
        def walk(self, tree: Path) -> Iterator[Entry]:
            inside.append(1)
            most.append(len(inside))
            yield from super().walk(tree)
            inside.pop()

    await asyncio.gather(*(stored(storage, tree, f"{i}.tar.gz", Counting()) for i in range(5)))

    assert max(most) == 1
    assert len(listing(storage)) == 6


async def test_a_directory_of_flux_is_taken_over(storage: Storage, tree: Path) -> None:
    artifact = await stored(storage, tree)
    (storage.root / HERE / ".digest-abc.tar.gz").unlink()
    unknown = await storage.open(artifact.path)
    assert unknown is not None
    with unknown.file:
        assert not unknown.intact

    assert await storage.intact(artifact)

    known = await storage.open(artifact.path)
    assert known is not None
    with known.file:
        assert known.intact


@pytest.mark.parametrize(
    "path",
    [f"{HERE}/../web/abc.tar.gz", f"{HERE}/.digest-abc.tar.gz", HERE, f"{HERE}/nothing", "x",
     f"{HERE}/link.tar.gz", f"{HERE}/chain.tar.gz", "gitrepository/apps/sneaky/abc.tar.gz"],
)  # fmt: skip
async def test_nothing_but_artifacts_can_be_opened(
    storage: Storage, tree: Path, tmp_path: Path, path: str
) -> None:
    await stored(storage, tree)
    (tmp_path / "outside.tar.gz").write_bytes(b"secret")
    (storage.root / HERE / "link.tar.gz").symlink_to(tmp_path / "outside.tar.gz")
    (storage.root / HERE / "chain.tar.gz").symlink_to("link.tar.gz")
    (storage.root / "gitrepository/apps/sneaky").symlink_to(tmp_path)

    assert await storage.open(path) is None


async def test_a_reader_keeps_what_it_opened(storage: Storage, tree: Path) -> None:
    artifact = await stored(storage, tree)
    opened = await storage.open(f"{HERE}/latest.tar.gz")
    assert opened is not None
    with opened.file:
        await storage.remove(OWNER)

        content = os.pread(opened.file.fileno(), opened.size, 0)
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == artifact.digest


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    file = tmp_path / "chart"
    file.write_bytes(b"a packed chart")
    return file


async def kept(storage: Storage, file: Path, filename: str = "app-1.0.0.tgz") -> Artifact:
    return await storage.store_file(OWNER, revision="1.0.0", filename=filename, file=file)


async def test_a_ready_file_is_stored_as_it_is(storage: Storage, chart: Path) -> None:
    artifact = await kept(storage, chart)

    assert storage.path(artifact).read_bytes() == b"a packed chart"
    assert os.access(chart, os.R_OK)
    assert artifact.digest == f"sha256:{hashlib.sha256(b'a packed chart').hexdigest()}"
    assert artifact.size == len(b"a packed chart")
    assert artifact.revision == "1.0.0"
    assert await storage.intact(artifact)
    assert str((storage.root / HERE / "latest.tar.gz").readlink()) == "app-1.0.0.tgz"
    assert leftovers(storage) == []


async def test_what_is_no_regular_file_is_not_stored(storage: Storage, tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("/etc/passwd")
    os.mkfifo(pipe)

    for file in (link, pipe, tmp_path):
        with pytest.raises(TransientError, match=r"is not a regular file|is a link"):
            await kept(storage, file)

    assert listing(storage) == []
    assert leftovers(storage) == []


async def test_a_file_that_no_consumer_would_take_is_not_stored(
    storage: Storage, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(limits.PACKED + 1)

    with pytest.raises(TransientError, match="larger than 1024 MiB"):
        await kept(storage, large)

    assert leftovers(storage) == []


@pytest.mark.parametrize("name", ["latest.tar.gz", "app-latest.tgz", "index.yaml", "latest"])
async def test_no_artifact_takes_the_name_of_the_link(
    storage: Storage, chart: Path, name: str
) -> None:
    with pytest.raises(StalledError, match="link to the newest"):
        await kept(storage, chart, name)


async def test_an_artifact_is_a_file_on_this_machine(storage: Storage, chart: Path) -> None:
    artifact = await kept(storage, chart)

    async with storage.local(artifact) as path:
        assert path.read_bytes() == b"a packed chart"


async def test_a_damaged_artifact_is_not_given_out(storage: Storage, chart: Path) -> None:
    artifact = await kept(storage, chart)
    storage.path(artifact).write_bytes(b"something else")

    with pytest.raises(TransientError, match="not in the store any more"):
        async with storage.local(artifact):
            pytest.fail("it was given out")


async def test_a_reader_is_told_that_the_file_was_replaced(
    storage: Storage, chart: Path, tmp_path: Path
) -> None:
    artifact = await kept(storage, chart)
    other = tmp_path / "other"
    other.write_bytes(b"another chart")

    async def read() -> None:
        async with storage.local(artifact):
            await kept(storage, other)

    with pytest.raises(TransientError, match="deleted or replaced while it was read"):
        await read()


async def test_a_reader_is_told_that_the_file_was_deleted(storage: Storage, chart: Path) -> None:
    artifact = await kept(storage, chart)

    async def read() -> None:
        async with storage.local(artifact) as path:
            await storage.remove(OWNER)
            path.read_bytes()

    with pytest.raises(TransientError, match="deleted or replaced while it was read") as caught:
        await read()
    assert isinstance(caught.value.__cause__, FileNotFoundError)


async def test_a_readers_own_errors_stay_its_own(storage: Storage, chart: Path) -> None:
    artifact = await kept(storage, chart)

    with pytest.raises(FileNotFoundError):
        async with storage.local(artifact):
            (storage.root / "another").read_bytes()


async def test_the_use_of_space_is_told_by_owner(storage: Storage, chart: Path) -> None:
    other = Owner(kind="GitRepository", namespace="infra", name="dns")
    await kept(storage, chart, "app-1.0.0.tgz")
    await kept(storage, chart, "app-1.0.1.tgz")
    await storage.store_file(other, revision="1", filename="x.tgz", file=chart)

    size = len(b"a packed chart")
    assert await storage.usage("GitRepository") == {OWNER: 2 * size, other: size}
    assert await storage.usage("GitRepository", "infra") == {other: size}
    assert await storage.usage("Bucket") == {}
