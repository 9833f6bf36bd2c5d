"""What the artifacts of one build may take of the disk of everybody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controllers.kustomize.rendering import MOST_BYTES, Renderer
from controllers.kustomize.sources import Mount, Sources
from crds.meta import Artifact
from toolkit.artifact.fetch import Extracted
from toolkit.errors import StalledError
from toolkit.objects import GroupVersionKind, ObjectRef
from toolkit.render import kustomize

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
ARTIFACT = Artifact(
    digest="sha256:0",
    last_update_time="2026-01-01T00:00:00Z",
    path="gitrepository/apps/app/abc.tar.gz",
    revision="main@sha1:abc",
    url="http://artifacts.test/gitrepository/apps/app/abc.tar.gz",
)


@dataclass
class Unpacked:
    """Artifacts that each take half of what a build may take; ``names`` are those in use."""

    names: list[str] = field(default_factory=list)
    most: int = 0

    @asynccontextmanager
    async def extracted(self, *_: object) -> AsyncIterator[Extracted]:
        self.names.append("artifact")
        self.most = max(self.most, len(self.names))
        try:
            yield Extracted(Path("/nowhere"), MOST_BYTES // 2)
        finally:
            self.names.pop()


async def test_the_artifacts_of_a_build_are_bounded_together() -> None:
    ref = ObjectRef(GIT, "apps", "app")
    sources = Sources(
        mounts=tuple(Mount(path=f"part-{n}", ref=ref, artifact=ARTIFACT) for n in range(32))
    )
    unpacked = Unpacked()
    fetcher: Any = unpacked
    no_pool: Any = None
    renderer = Renderer(pool=no_pool, fetcher=fetcher, strict=True)

    with pytest.raises(StalledError, match="take more than 2 GiB together"):
        await renderer.unchanged(sources, kustomize.UNKNOWN, flow="team", seconds=1)

    assert (unpacked.most, unpacked.names) == (3, [])
