"""The chart in an artifact is found, and read once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllers.helm.charts import Charts
from controllers.helm.sources import ChartSource
from crds.meta import Artifact
from toolkit.artifact.cache import Extracted
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError
from toolkit.helm.actions import Chart
from toolkit.objects import GroupVersionKind, ObjectRef

GVK = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmChart")


def source(digest: str = "0", name: str = "shop") -> ChartSource:
    artifact = Artifact(
        digest=f"sha256:{digest * 64}", last_update_time="", path="", revision="1", url=""
    )
    return ChartSource(ref=ObjectRef(GVK, "team", name), artifact=artifact)


class World:
    """An artifact on disk."""

    def __init__(self, directory: Path, *charts: str) -> None:
        self.directory = directory
        self.read: list[str] = []
        self.fetched: list[str] = []
        self.broken = False
        fetcher: Any = self
        self.charts = Charts(fetcher, self._load)
        for name in charts:
            (directory / name).mkdir()
            (directory / name / "Chart.yaml").touch()

    @asynccontextmanager
    async def extracted(self, _: Artifact, owner: Owner) -> AsyncIterator[Extracted]:
        self.fetched.append(owner.path)
        yield Extracted(self.directory, 0)

    async def _load(self, directory: Path, _: str) -> Chart:
        self.read.append(directory.name)
        if self.broken:
            raise TransientError("no name", reason="EngineFailed")
        return Chart(name=directory.name, version="1.0.0", app_version="7")


async def test_chart_is_read_once_for_each_artifact(tmp_path: Path) -> None:
    world = World(tmp_path, "shop")

    about = await world.charts.about(source(), flow="team")
    await world.charts.about(source(), flow="team")
    assert world.read == ["shop"]
    await world.charts.about(source("1"), flow="team")

    assert (about.name, about.version, about.app_version) == ("shop", "1.0.0", "7")
    assert world.read == ["shop"] * 2


async def test_artifact_of_each_source_is_fetched_even_if_its_chart_is_known(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, "shop")
    await world.charts.about(source(), flow="team")

    await world.charts.about(source(name="other"), flow="team")

    assert world.fetched == ["helmchart/team/shop", "helmchart/team/other"]
    assert world.read == ["shop"]


@pytest.mark.parametrize("charts", [[], ["a", "b"]], ids=["none", "two"])
async def test_artifact_without_exactly_one_chart_is_refused(
    tmp_path: Path, charts: list[str]
) -> None:
    world = World(tmp_path, *charts)
    (tmp_path / "README.md").touch()

    with pytest.raises(TransientError, match="Could not load chart") as caught:
        await world.charts.about(source(), flow="team")
    assert caught.value.reason == "ArtifactFailed"


async def test_chart_that_cannot_be_read_is_told_in_fluxs_words(tmp_path: Path) -> None:
    world = World(tmp_path, "shop")
    world.broken = True

    with pytest.raises(TransientError, match="Could not load chart: no name") as caught:
        await world.charts.about(source(), flow="team")
    assert caught.value.reason == "ArtifactFailed"
