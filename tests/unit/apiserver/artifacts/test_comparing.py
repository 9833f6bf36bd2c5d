"""What changed between two artifacts: names and sizes."""

from pathlib import Path

import pytest
from multidict import MultiDict

from apiserver.artifacts import comparing, files
from apiserver.artifacts.files import File
from apiserver.status import StatusError
from toolkit.artifact import threads
from toolkit.errors import TransientError


def file(path: str, sha256: str = "1", *, executable: bool = False) -> File:
    return File(path=path, size=1, executable=executable, sha256=sha256)


def changes(before: list[File], after: list[File]) -> list[tuple[str, str]]:
    return [(each["path"], each["change"]) for each in comparing.changes(before, after)]


def test_files_are_added_removed_and_modified() -> None:
    before = [file("same"), file("gone"), file("other")]
    after = [file("same"), file("new"), file("other", "2")]

    assert changes(before, after) == [("gone", "Removed"), ("new", "Added"), ("other", "Modified")]


def test_a_file_that_becomes_executable_is_modified() -> None:
    assert changes([file("x")], [file("x", executable=True)]) == [("x", "Modified")]


def test_no_digest_lets_a_viewer_confirm_a_guess() -> None:
    before, after = file("password", "1" * 64), file("password", "2" * 64)

    (change,) = comparing.changes([before], [after])

    assert change == {
        "path": "password",
        "change": "Modified",
        "before": {"path": "password", "size": 1, "mode": "0600"},
        "after": {"path": "password", "size": 1, "mode": "0600"},
    }


def test_equal_artifacts_have_no_difference() -> None:
    assert changes([file("x")], [file("x")]) == []


def test_a_name_that_is_no_text_can_be_told() -> None:
    (change,) = comparing.changes([], [file("a\udcff")])

    assert change["path"] == "a\\udcff"
    assert change["after"]["path"] == "a\\udcff"


def test_charts_are_compared_by_version() -> None:
    before = {("app", "1"): "a", ("app", "2"): "b"}
    after = {("app", "2"): "c", ("lib", "1"): "d"}

    assert [tuple(each.values()) for each in comparing.charts(before, after)] == [
        ("app", "1", "Removed"),
        ("app", "2", "Modified"),
        ("lib", "1", "Added"),
    ]


@pytest.mark.parametrize("content", [b"entries:\n  app: []\n", b"[]", b'{"entries": {"a": 1}}'])
def test_what_is_no_index_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "index.yaml"
    path.write_bytes(content)

    with pytest.raises(TransientError, match="no index"):
        comparing._charts(path, threads.go_on)


def test_a_parameter_that_means_nothing_is_refused() -> None:
    files.require_known(MultiDict(path="x", pretty="true"), "path")

    with pytest.raises(StatusError, match="'paht' is not known; there is path"):
        files.require_known(MultiDict(paht="x"), "path")
    with pytest.raises(StatusError, match="once"):
        files.require_known(MultiDict([("path", "a"), ("path", "b")]), "path")
