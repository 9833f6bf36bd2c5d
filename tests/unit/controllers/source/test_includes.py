"""Which artifacts a GitRepository includes, decided on what the informer knows."""

from pathlib import Path

import msgspec
import pytest

from controllers.source import includes
from controllers.source.includes import Room
from crds.meta import Artifact, LocalObjectReference, ObjectMeta
from crds.source import GitRepository, GitRepositoryInclude, GitRepositorySpec, GitRepositoryStatus
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.limits import Limits
from toolkit.artifact.storage import Owner, Storage
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
from toolkit.objects import ObjectKey


class Neighbours:
    """What a namespace holds: names, and what each includes."""

    def __init__(self, storage: Storage, **included: str) -> None:
        self.storage = storage
        self._included = {name: names.split() for name, names in included.items()}
        self._artifacts: dict[str, Artifact] = {}

    async def store(self, tree: Path, *names: str) -> None:
        for name in names:
            self._artifacts[name] = await self.storage.store(
                Owner(kind="GitRepository", namespace="pipes", name=name),
                revision="main@sha1:1",
                filename="1.tar.gz",
                tree=tree,
                ignore=Ignore(),
            )

    def __call__(self, _kind: str, key: ObjectKey) -> GitRepository | None:
        return self.get(key.name) if key.name in self._included else None

    def get(self, name: str) -> GitRepository:
        include = [include_of(other) for other in self._included[name]]
        return GitRepository(
            metadata=ObjectMeta(name=name, namespace="pipes"),
            spec=GitRepositorySpec(url="https://x.test/a", interval="1m", include=include),
            status=GitRepositoryStatus(artifact=self._artifacts.get(name)),
        )

    async def find(self, name: str) -> tuple[Artifact, ...]:
        return await includes.find(self.get(name), self, self.storage)


def include_of(name: str, *, from_path: str = "", to_path: str = "") -> GitRepositoryInclude:
    return GitRepositoryInclude(
        repository=LocalObjectReference(name=name), from_path=from_path, to_path=to_path
    )


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "store", advertised="localhost")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/deploy").mkdir(parents=True)
    (tmp_path / "tree/deploy/a.yaml").write_text("1")
    return tmp_path / "tree"


async def test_artifacts_come_in_the_order_of_the_spec(storage: Storage, tree: Path) -> None:
    namespace = Neighbours(storage, app="two one", one="", two="")
    await namespace.store(tree, "one", "two")

    found = await namespace.find("app")

    assert [artifact.path.split("/")[2] for artifact in found] == ["two", "one"]


async def test_what_two_neighbours_share_is_no_circle(storage: Storage, tree: Path) -> None:
    namespace = Neighbours(storage, app="one two", one="base", two="base", base="")
    await namespace.store(tree, "one", "two", "base")

    assert len(await namespace.find("app")) == 2


@pytest.mark.parametrize(
    ("included", "chain"),
    [
        ({"app": "app"}, "app, app"),
        ({"app": "one", "one": "app"}, "app, one, app"),
        ({"app": "other one", "other": "", "one": "two", "two": "app"}, "app, one, two, app"),
    ],
)
async def test_circle_is_refused_and_shown(
    storage: Storage, tree: Path, included: dict[str, str], chain: str
) -> None:
    namespace = Neighbours(storage, **included)
    await namespace.store(tree, *included)

    with pytest.raises(TransientError, match=f"'app' includes itself: {chain}$"):
        await namespace.find("app")


async def test_circle_of_others_is_theirs_to_break(storage: Storage, tree: Path) -> None:
    namespace = Neighbours(storage, app="one", one="two", two="one")
    await namespace.store(tree, "one", "two")

    assert len(await namespace.find("app")) == 1


async def test_damaged_artifact_is_not_included(storage: Storage, tree: Path) -> None:
    namespace = Neighbours(storage, app="one", one="")
    await namespace.store(tree, "one")
    artifact = namespace.get("one").status.artifact
    assert artifact is not None
    storage.path(artifact).write_bytes(b"?")

    with pytest.raises(WaitingError, match=r"no artifact available for include 'one'$") as caught:
        await namespace.find("app")
    assert caught.value.reason == "NoArtifact"


async def test_path_through_a_link_does_not_leave_the_tree(
    storage: Storage, tree: Path, tmp_path: Path
) -> None:
    namespace = Neighbours(storage, one="")
    await namespace.store(tree, "one")
    artifact = namespace.get("one").status.artifact
    assert artifact is not None
    target = tmp_path / "target"
    target.mkdir()
    (target / "away").symlink_to(tmp_path)

    with pytest.raises(StalledError, match="'away/x' points outside the repository"):
        await includes.copy(storage, artifact, include_of("one", to_path="away/x"), target, Room())
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "paths",
    [
        {"from_path": "../.."},
        {"from_path": "/etc"},
        {"from_path": "file"},
        {"to_path": "../up"},
        {"to_path": "/etc/penstock"},
        {"to_path": "taken"},
    ],
    ids=str,
)
async def test_include_cannot_leave_its_repositories(
    storage: Storage, tree: Path, tmp_path: Path, paths: dict[str, str]
) -> None:
    (tree / "file").write_text("1")
    namespace = Neighbours(storage, one="")
    await namespace.store(tree, "one")
    artifact = namespace.get("one").status.artifact
    assert artifact is not None
    target = tmp_path / "below" / "target"
    target.mkdir(parents=True)
    (target / "taken").write_text("1")

    with pytest.raises(PenstockError) as caught:
        await includes.copy(storage, artifact, include_of("one", **paths), target, Room())

    (path,) = paths.values()
    assert path in str(caught.value)
    assert caught.value.reason in {"IncludeUnavailable", "CopyFailure"}
    assert [found.name for found in (tmp_path / "below").iterdir()] == ["target"]


async def test_artifact_that_is_gone_meanwhile_is_an_error_of_the_include(
    storage: Storage, tree: Path, tmp_path: Path
) -> None:
    namespace = Neighbours(storage, one="")
    await namespace.store(tree, "one")
    artifact = namespace.get("one").status.artifact
    assert artifact is not None
    gone = msgspec.structs.replace(artifact, path=artifact.path.replace("1.tar", "2.tar"))

    with pytest.raises(TransientError, match="failed to copy 'one' include from  to one: "):
        await includes.copy(storage, gone, include_of("one"), tmp_path / "target", Room())


async def test_worker_that_leaves_a_link_has_nothing_written_elsewhere(
    storage: Storage, tree: Path, tmp_path: Path
) -> None:
    (tree / "dir").mkdir()
    (tree / "dir" / "file").write_text("included")
    around = Neighbours(storage, a="b", b="")
    await around.store(tree, "b")
    (artifact,) = await around.find("a")
    outside = tmp_path / "outside"
    outside.mkdir()
    checkout = tmp_path / "checkout"
    checkout.symlink_to(outside)

    with pytest.raises(StalledError, match="points outside the repository"):
        await includes.copy(storage, artifact, include_of("b", to_path="."), checkout, Room())
    checkout.unlink()
    checkout.mkdir()
    (checkout / "dir").symlink_to(outside)
    with pytest.raises(TransientError, match="failed to copy '"):
        await includes.copy(storage, artifact, include_of("b", to_path="."), checkout, Room())

    assert not [*outside.iterdir()]


@pytest.mark.parametrize("bounds", [Limits(total_bytes=3 << 20), Limits(entries=3)])
async def test_includes_are_bounded_together(
    storage: Storage, tree: Path, tmp_path: Path, bounds: Limits
) -> None:
    """A mebibyte of zeros takes a kibibyte in the store, and may be included everywhere."""
    (tree / "zeros").write_bytes(bytes(1 << 20))
    namespace = Neighbours(storage, app="one", one="")
    await namespace.store(tree, "one")
    (artifact,) = await namespace.find("app")
    target, room = tmp_path / "target", Room(bounds)
    target.mkdir()

    async def everywhere() -> None:
        for number in range(100):
            include = include_of("one", to_path=str(number))
            await includes.copy(storage, artifact, include, target, room)

    with pytest.raises(TransientError, match="all includes together have more than") as caught:
        await everywhere()

    assert caught.value.reason == "CopyFailure"
    assert sum(file.stat().st_size for file in target.rglob("*") if file.is_file()) < 3 << 20


async def test_more_includes_than_anybody_needs_are_refused(storage: Storage) -> None:
    namespace = Neighbours(storage, app=" ".join(f"a{number}" for number in range(257)))

    with pytest.raises(StalledError, match=r"spec\.include has 257 references, more than 256"):
        await namespace.find("app")
    assert len(list(includes.parents(namespace.get("app")))) == 256
