"""An index becomes the same JSON whatever it was written as, and nothing else gets through."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.charts import entry
from toolkit.chart import index, limits
from toolkit.chart.errors import IndexationError
from toolkit.chart.index import Summary


@pytest.fixture
def normalize(tmp_path: Path) -> Callable[[bytes], tuple[Summary, Any]]:
    """Return what normalizes an index in memory."""

    def run(content: bytes) -> tuple[Summary, Any]:
        source, into = tmp_path / "index.yaml", tmp_path / "index.json"
        source.write_bytes(content)
        summary = index.normalize(source, into)
        assert summary.digest == f"sha256:{hashlib.sha256(into.read_bytes()).hexdigest()}"
        assert summary.size == into.stat().st_size
        assert [path.name for path in tmp_path.iterdir() if "unsorted" in path.name] == []
        return summary, json.loads(into.read_bytes())

    return run


def written(entries: Mapping[str, object], **fields: object) -> dict[str, object]:
    return {"apiVersion": "v1", "entries": entries, "generated": "2024-01-01"} | fields


def test_yaml_and_json_become_the_same(normalize: Callable[[bytes], tuple[Summary, Any]]) -> None:
    data = written(
        {
            "b": [entry("b", "1.0.0", deprecated=True, created="2020-01-01T00:00:00Z")],
            "a": [entry("a", "1.0.0", keywords=["x", "yes"], annotations={"n": "1"})],
        }
    )

    from_yaml, _ = normalize(yaml.safe_dump(data, sort_keys=False).encode())
    from_json, content = normalize(json.dumps(data).encode())

    assert from_yaml == from_json
    assert list(content["entries"]) == ["a", "b"]
    assert content["entries"]["b"][0]["deprecated"] is True


def test_date_of_generation_makes_no_new_index(
    normalize: Callable[[bytes], tuple[Summary, Any]],
) -> None:
    entries = {"a": [entry("a", "1.0.0")]}

    one, _ = normalize(json.dumps(written(entries, generated="2024-01-01")).encode())
    other, _ = normalize(json.dumps(written(entries, generated="2024-01-02")).encode())

    assert one.digest == other.digest


def test_versions_are_sorted_from_the_highest(
    normalize: Callable[[bytes], tuple[Summary, Any]],
) -> None:
    versions = ["1.9.0", "1.10.0", "2.0.0-rc.1", "1.2"]

    _, content = normalize(
        json.dumps(written({"a": [entry("a", number) for number in versions]})).encode()
    )

    found = [item["version"] for item in content["entries"]["a"]]
    assert found == ["2.0.0-rc.1", "1.10.0", "1.9.0", "1.2"]


@pytest.mark.parametrize(
    "bad",
    [
        entry("other", "1.0.0"),
        {"name": "a", "urls": ["a.tgz"]},
        entry("a", "latest"),
        entry("a", "1.1.0", urls=[]),
        entry("a", "1.1.0", urls=[None]),
        entry("a", "1.1.0", urls="a.tgz"),
        entry("a", "1.1.0", type="something"),
        None,
        "text",
        ["list"],
    ],
)
@pytest.mark.parametrize("form", [json.dumps, yaml.safe_dump])
def test_entry_that_is_no_chart_is_left_out(
    bad: object, form: Callable[[object], str], normalize: Callable[[bytes], tuple[Summary, Any]]
) -> None:
    summary, content = normalize(form(written({"a": [bad, entry("a", "1.0.0")]})).encode())

    assert [item["version"] for item in content["entries"]["a"]] == ["1.0.0"]
    assert (summary.versions, summary.skipped) == (1, 1)


def test_strings_stay_as_they_are_written(
    normalize: Callable[[bytes], tuple[Summary, Any]],
) -> None:
    text = (
        b"apiVersion: v1\nentries:\n  a:\n  - name: a\n    version: 1.0.0\n    appVersion: 1.10\n"
        b"    description: ~\n    digest: 12e4\n    urls: [a.tgz]\n    unknown: {deep: [1]}\n"
    )

    _, content = normalize(text)

    assert content["entries"]["a"] == [
        {"apiVersion": "v1", "appVersion": "1.10", "digest": "12e4", "name": "a"}
        | {"urls": ["a.tgz"], "version": "1.0.0"}
    ]


ONE = b"    - {name: a, version: 1.0.0, urls: [a.tgz]}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"<html><body>Not found</body></html>", "a mapping"),
        (b"entries:\n  a:\n" + ONE, "no apiVersion"),
        (b'{"entries": {}}', "no apiVersion"),
        (b"apiVersion: ~\nentries:\n  a:\n" + ONE, "no apiVersion"),
        (b"apiVersion: v1\nentries: {..: [{name: .., version: 1.0.0, urls: [a]}]}", "no valid"),
        (b"apiVersion: v1\nentries: {}\n", "no valid version"),
        (b"apiVersion: v1\nentries:\n", "no valid version"),
        (b"apiVersion: v1\n", "no valid version"),
        (b"apiVersion: v1\nentries: [a]\n", "line 2: there should be a mapping of charts"),
        (b"apiVersion: v1\nentries: {a: 1}\n", "list of versions"),
        (b"apiVersion: v1\nentries:\n  a:\n" + ONE + b"  a:\n" + ONE, "line 5: 'a' occurs twice"),
        (b"apiVersion: v1\nentries:\n  a:\n    - {name: a, name: b}\n", "'name' occurs twice"),
        (b"apiVersion: v1\nentries: {}\nentries: {}\n", "'entries' occurs twice"),
        (b"apiVersion: v1\nx: &x {}\nentries:\n  a: *x\n", "list of versions|anchors"),
        (b"apiVersion: v1\nentries:\n  a:\n    - {name: &n a, urls: [*n]}\n", "anchors"),
        (b"apiVersion: v1\nentries: {a: [\n", "not YAML: line"),
        (b"apiVersion: v1\nentries: {a: [{x: " + b"[" * 40 + b"]" * 40 + b"}]}", "nests deeper"),
        (b"apiVersion: v1\nignored: " + b"[" * 101 + b"]" * 101, "nests deeper"),
        (b"{a: " * 50_000, "nests deeper"),
        (b'{"apiVersion":"v1","entries":{"a":[{"x":' + b"[" * 9999 + b"]" * 9999 + b"}]}}", "deep"),
        (b'{"apiVersion":"v1","entries":{"a":{}}}', "malformed"),
        (b"\xff\xfe\x00\x00\xff", "."),
        (b"apiVersion: v1\nentries: \x01\n", "."),
    ],
)
def test_what_is_no_index_is_refused(
    content: bytes, message: str, normalize: Callable[[bytes], tuple[Summary, Any]]
) -> None:
    with pytest.raises(IndexationError, match=message) as caught:
        normalize(content)

    assert caught.value.reason == "IndexationFailed"


def test_alias_bomb_is_refused_at_its_first_anchor(
    normalize: Callable[[bytes], tuple[Summary, Any]],
) -> None:
    bomb = b"apiVersion: v1\nentries:\n  a: &a [x, x]\n  b: &b [*a, *a]\n  c: [*b, *b]\n"

    with pytest.raises(IndexationError, match="line 3: anchors and aliases"):
        normalize(bomb)


def test_index_of_more_than_50_mib_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "index.yaml"
    with source.open("wb") as file:
        file.truncate(limits.INDEX_BYTES + 1)

    with pytest.raises(IndexationError, match="larger than 50 MiB"):
        index.normalize(source, tmp_path / "index.json")


@pytest.mark.parametrize("charts", [1, 1000])
def test_index_of_a_million_entries_is_refused(
    charts: int, normalize: Callable[[bytes], tuple[Summary, Any]]
) -> None:
    versions = b",".join([b"{}"] * (1_000_000 // charts))
    entries = b",".join(b'"a%d":[%s]' % (number, versions) for number in range(charts))

    with pytest.raises(IndexationError, match="more than"):
        normalize(b'{"apiVersion":"v1","entries":{' + entries + b"}}")
