"""The version of a chart that an index has for a range is the one that Flux would take."""

import json
from pathlib import Path

import pytest

from tests.fakes.charts import entry
from toolkit.chart import index
from toolkit.chart.errors import ChartReferenceError
from toolkit.chart.lookup import Catalog

VERSIONS = ("0.9.0", "1.0.0", "1.2.0-rc.1", "1.2.0", "1.10.0", "v1.11.0", "2.0.0-beta.2", "3.0.0+b")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write an index with one chart."""
    entries = [entry("a", number, digest=f"d-{number}") for number in VERSIONS]
    (tmp_path / "raw").write_text(json.dumps({"apiVersion": "v1", "entries": {"a": entries}}))
    index.normalize(tmp_path / "raw", tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("*", "3.0.0+b"),
        ("", "3.0.0+b"),
        ("1.x", "v1.11.0"),
        ("1.11.0", "v1.11.0"),
        ("~1.2.0", "1.2.0"),
        ("<1.2.0", "1.0.0"),
        ("<1.2.0-z", "1.2.0-rc.1"),
        ("2.0.0-beta.2", "2.0.0-beta.2"),
        (">=2.0.0-0 <3.0.0", "2.0.0-beta.2"),
        ("1.2.0-rc.1", "1.2.0-rc.1"),
        ("^0.9.0 || ~1.0", "1.0.0"),
        ("3.0.0", "3.0.0+b"),
    ],
)
def test_range_finds_the_highest_version(path: Path, wanted: str, version: str) -> None:
    found = Catalog().find(path, "digest", "a", wanted)

    assert (found.name, found.version, found.digest) == ("a", version, f"d-{version}")
    assert found.urls == (f"a-{version}.tgz",)


@pytest.mark.parametrize(
    ("name", "wanted", "message"),
    [
        ("b", "*", "no chart 'b'"),
        ("aa", "*", "no chart 'aa': write 'a'"),
        ("a", ">9", r"no 'a' chart with version matching '>9' found: the highest version is '\d"),
        ("a", "~2", "no 'a' chart"),
        ("a", "not a range", "spec.version"),
        ("", "*", "no chart ''"),
    ],
)
def test_what_is_not_there_is_named(path: Path, name: str, wanted: str, message: str) -> None:
    with pytest.raises(ChartReferenceError, match=message):
        Catalog().find(path, "digest", name, wanted)


def test_of_versions_that_differ_in_build_only_the_youngest_counts(tmp_path: Path) -> None:
    entries = [
        entry("a", "1.0.0+old", created="2020-01-01T00:00:00Z"),
        entry("a", "1.0.0+new", created="2021-01-01T00:00:00Z"),
        entry("a", "1.0.0+zzz", created="2019-01-01T00:00:00Z"),
    ]
    (tmp_path / "raw").write_text(json.dumps({"apiVersion": "v1", "entries": {"a": entries}}))
    index.normalize(tmp_path / "raw", tmp_path / "index")

    found = Catalog().find(tmp_path / "index", "digest", "a", "1.x")

    assert found.version == "1.0.0+new"


def test_index_that_was_looked_into_is_not_opened_again(path: Path) -> None:
    catalog = Catalog()
    catalog.find(path, "digest", "a", "1.x")
    path.unlink()

    assert catalog.find(path, "digest", "a", "0.x").version == "0.9.0"


def test_only_the_last_indexes_are_remembered(path: Path) -> None:
    catalog = Catalog()
    for digest in ("one", "two", "three"):
        catalog.find(path, digest, "a", "*")
    path.unlink()

    with pytest.raises(FileNotFoundError):
        catalog.find(path, "one", "a", "*")
