"""Indexes that helm writes are read in full, and the versions we find are those that it finds."""

import hashlib
from pathlib import Path

import pytest
import yaml

from tests.fakes.chartrepository import ChartRepository
from tests.fakes.charts import chart, write
from tests.tools.helmcli import Helm, beside
from toolkit.chart import index
from toolkit.chart.errors import ChartReferenceError
from toolkit.chart.lookup import Catalog

VERSIONS = ("0.1.0", "0.2.0-rc.1", "1.0.0", "1.2.0", "1.10.0", "2.0.0-beta.1", "2.0.0-beta.11")
RANGES = (
    *("", "*", "1.x", "~1.2", "^1", ">1.0.0", "<1.0.0", ">=0.1.0 <1.2.0", "0.1.0", "1.2"),
    *("2.0.0-beta.1", ">=2.0.0-0", "~2.0.0-0", ">1.10.0", "^0.1", "1.0.0 - 1.5.0", "!=1.10.0"),
    *("0.2.0-rc.1", "<1.0.0-0", "^1 || ^0.1", "1.0.0 || 9", ">0.0.0-0", "x", "v1.2.0", "3"),
)


def test_index_that_helm_writes_is_read(helm: Helm, tmp_path: Path) -> None:
    for version in ("1.0.0", "1.1.0+b.2"):
        files = chart("app", version, extra="keywords: [a]\ndeprecated: true\nappVersion: 1.10\n")
        write(tmp_path / version, files)
        (tmp_path / "repo").mkdir(exist_ok=True)
        helm("package", tmp_path / version, "--destination", tmp_path / "repo")
    helm("repo", "index", tmp_path / "repo", "--url", "https://charts.test")

    summary = index.normalize(tmp_path / "repo/index.yaml", tmp_path / "index")

    found = Catalog().find(tmp_path / "index", summary.digest, "app", "1.1.0+b.2")
    data = (tmp_path / "repo/app-1.1.0+b.2.tgz").read_bytes()
    assert (summary.versions, summary.skipped) == (2, 0)
    assert found.digest == hashlib.sha256(data).hexdigest()
    assert found.urls == ("https://charts.test/app-1.1.0+b.2.tgz",)
    written = yaml.safe_load((tmp_path / "repo/index.yaml").read_bytes())["entries"]["app"]
    kept = yaml.safe_load((tmp_path / "index").read_bytes())["entries"]["app"]
    assert [sorted(item) for item in kept] == [sorted(item) for item in written]


@pytest.mark.parametrize("wanted", RANGES)
async def test_version_is_the_one_that_helm_finds(
    helm: Helm, tmp_path: Path, server: ChartRepository, wanted: str
) -> None:
    for version in VERSIONS:
        server.add("app", version, files=chart("app", version))
    (tmp_path / "raw").write_bytes(server.index)
    index.normalize(tmp_path / "raw", tmp_path / "index")
    options = ("--version", wanted) if wanted else ()

    try:
        found = Catalog().find(tmp_path / "index", "d", "app", wanted).version
    except ChartReferenceError:
        found = ""

    try:
        shown = await beside(helm, "show", "chart", "app", "--repo", server.url, *options)
        expected = yaml.safe_load(shown)["version"]
    except AssertionError:
        expected = ""
    assert found == expected
