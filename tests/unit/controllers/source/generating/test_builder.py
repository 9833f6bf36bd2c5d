"""Builds run in a process of their own, from what could be fetched."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import crds
from controllers.source.generating import builder
from controllers.source.generating.builder import Builder
from controllers.source.generating.inputs import Input
from controllers.source.generating.wire import BuildResult, BuiltArtifact
from crds.extensions import ArtifactGeneratorSpec
from crds.meta import Artifact
from toolkit.artifact.composition import limits
from toolkit.artifact.fetch import Extracted
from toolkit.artifact.store import Owner
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
from toolkit.native.pool import OperationError, WorkerMemoryError, WorkerTimeoutError
from toolkit.objects import GroupVersionKind, ObjectRef


class Copies:
    """Sources that are unpacked already, by digest; what is an error is raised."""

    def __init__(self, **found: Path | PenstockError) -> None:
        self.found = found
        self.size = 1
        self.asked: list[str] = []
        self.owners: list[str] = []

    @asynccontextmanager
    async def extracted(self, artifact: Artifact, owner: Owner) -> AsyncIterator[Extracted]:
        self.asked.append(artifact.digest)
        self.owners.append(owner.path)
        found = self.found[artifact.digest]
        if isinstance(found, PenstockError):
            raise found
        yield Extracted(found, self.size)


class Broken:
    """A pool whose workers do not live to answer."""

    def __init__(self, error: PenstockError) -> None:
        self.error = error

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109  # the pool's signature
        raise self.error


class Answering:
    """A pool whose workers answer what they like."""

    def __init__(self, result: BuildResult) -> None:
        self.result = result

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109  # the pool's signature
        return msgspec.msgpack.encode(self.result)


def inputs(*aliases: str) -> dict[str, Input]:
    gvk = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)
    return {
        alias: Input(
            alias=alias,
            ref=ObjectRef(gvk, "team", alias),
            artifact=Artifact(
                digest=alias, last_update_time="", path="", revision="", url="http://x.test"
            ),
        )
        for alias in aliases
    }


def spec(*copies: str, pattern: str = "", **fields: str) -> ArtifactGeneratorSpec:
    names = {text.removeprefix("@").partition("/")[0] for text in copies} | {"idle"}
    document: dict[str, Any] = {
        "sources": [{"alias": a, "kind": "GitRepository", "name": a} for a in sorted(names)],
        "artifacts": [
            {"name": "out", "copy": [{"from": c, "to": "@artifact/"} for c in copies], **fields}
        ],
    }
    return msgspec.convert(
        document | ({"pathPattern": pattern} if pattern else {}), ArtifactGeneratorSpec
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/apps/web").mkdir(parents=True)
    (tmp_path / "tree/apps/web/a.yaml").write_text("1")
    return tmp_path / "tree"


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


async def test_a_worker_builds_what_was_fetched(tree: Path, into: Path) -> None:
    pool = builder.start(size=1, reads=(tree,), writes=(into,))
    try:
        result = await Builder(pool, Copies(a=tree)).build(
            spec("@a/apps/**"), inputs("a"), into, flow="team"
        )
    finally:
        await pool.close()

    (built,) = result.artifacts
    assert Path(built.directory).joinpath("web/a.yaml").read_text() == "1"
    assert Path(built.directory).parent == into


@pytest.mark.parametrize(
    ("broken", "kind", "reason"),
    [
        (spec("@a/none"), TransientError, "BuildFailed"),
        (
            spec("@a/apps/{w}/**", pattern="@a/apps/{w}", name="-{w}"),
            StalledError,
            "ValidationFailed",
        ),
    ],
    ids=["missing", "name"],
)
async def test_a_workers_refusal_arrives_as_it_was(
    tree: Path, into: Path, broken: ArtifactGeneratorSpec, kind: type[PenstockError], reason: str
) -> None:
    pool = builder.start(size=1, reads=(tree,), writes=(into,))
    try:
        with pytest.raises(kind) as caught:
            await Builder(pool, Copies(a=tree)).build(broken, inputs("a"), into, flow="team")
    finally:
        await pool.close()

    assert caught.value.reason == reason


async def test_only_sources_whose_files_are_needed_are_fetched(tree: Path, into: Path) -> None:
    copies = Copies(a=tree, b=tree)
    pool = builder.start(size=1, reads=(tree,), writes=(into,))
    try:
        await Builder(pool, copies).build(
            spec("@a/**", "@b/**"), inputs("a", "b", "idle"), into, flow="team"
        )
    finally:
        await pool.close()

    assert copies.asked == ["a", "b"]


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (WaitingError("artifact not found", retry_after=7), WaitingError),
        (TransientError("cannot fetch"), TransientError),
    ],
)
async def test_a_source_that_cannot_be_fetched_is_named(
    into: Path, failure: PenstockError, kind: type[PenstockError]
) -> None:
    copies = Copies(a=failure)

    with pytest.raises(kind, match=f"GitRepository 'team/a': {failure}") as caught:
        await Builder(Broken(failure), copies).build(spec("@a/**"), inputs("a"), into, flow="team")

    assert caught.value.reason == "SourceFetchFailed"
    assert getattr(caught.value, "retry_after", 7) == 7


@pytest.mark.parametrize(
    "error",
    [
        WorkerTimeoutError("build did not end within 300s"),
        WorkerMemoryError("build needed more memory than allowed (256 MiB)", limit=1),
        OperationError("build failed: RecursionError"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_build_that_takes_a_worker_down_is_a_failed_build(
    tree: Path, into: Path, error: PenstockError
) -> None:
    with pytest.raises(TransientError, match=str(error).split(" (")[0]) as caught:
        await Builder(Broken(error), Copies(a=tree)).build(
            spec("@a/**"), inputs("a"), into, flow="team"
        )

    assert caught.value.reason == "BuildFailed"


async def test_sources_that_are_too_large_together_are_not_built(tree: Path, into: Path) -> None:
    copies = Copies(a=tree, b=tree)
    copies.size = limits.TOTAL_BYTES // 2 + 1
    never = Broken(PenstockError("nothing was to be built"))

    with pytest.raises(TransientError, match="all sources together are larger"):
        await Builder(never, copies).build(
            spec("@a/**", "@b/**"), inputs("a", "b"), into, flow="team"
        )


@pytest.mark.parametrize("directory", ["/etc", "{into}", "{into}/1", "{into}/0/../../other", "0"])
async def test_a_worker_cannot_have_other_directories_packed(
    tree: Path, into: Path, directory: str
) -> None:
    built = BuiltArtifact(name="out", directory=directory.format(into=into), digest="a", files=1)

    with pytest.raises(TransientError, match="a directory that is not theirs") as caught:
        await Builder(Answering(BuildResult(artifacts=[built])), Copies(a=tree)).build(
            spec("@a/*"), inputs("a"), into, flow="team"
        )

    assert caught.value.reason == "BuildFailed"
