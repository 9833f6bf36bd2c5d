"""What changed between two artifacts: names and sizes."""

import asyncio
import threading
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from multidict import MultiDict

from apiserver.artifacts import comparing, files
from apiserver.artifacts.files import File, Files
from apiserver.artifacts.held import Held
from apiserver.call import Call
from apiserver.status import StatusError
from tests.unit.apiserver.artifacts.scene import Copies, call, held
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
    before = {"app": {"1": "a", "2": "b"}}
    after = {"app": {"2": "c"}, "lib": {"1": "d"}}

    assert [tuple(each.values()) for each in comparing.charts(before, after)] == [
        ("app", "1", "Removed"),
        ("app", "2", "Modified"),
        ("lib", "1", "Added"),
    ]


@pytest.mark.parametrize("content", [b"entries:\n  app: []\n", b"[]", b'{"entries": {"a": 1}}'])
def test_what_is_no_index_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "index.yaml"
    path.write_bytes(content)

    with pytest.raises(TransientError, match="not an index"):
        comparing._charts(path, threads.go_on)


def test_a_parameter_that_means_nothing_is_refused() -> None:
    files.require_known(MultiDict(path="x", pretty="true"), "path")

    with pytest.raises(StatusError, match="'paht' is not known; there is path"):
        files.require_known(MultiDict(paht="x"), "path")
    with pytest.raises(StatusError, match="once"):
        files.require_known(MultiDict([("path", "a"), ("path", "b")]), "path")


class Noting(Held):
    """An artifact that notes in which thread it was looked at."""

    threads: ClassVar[list[int]] = []

    def __getattribute__(self, name: str) -> Any:
        if name == "revision":
            Noting.threads.append(threading.get_ident())
        return super().__getattribute__(name)


class Both:
    """A catalog of two artifacts."""

    def __init__(self, before: Held, after: Held) -> None:
        self.known = (before, after)

    def require(self, _: Call) -> Held:
        return self.known[1]

    def siblings(self, _: Held) -> tuple[Held, ...]:
        return self.known


@pytest.mark.parametrize("kind", ["HelmRepository", "Bucket"])
async def test_a_large_difference_is_put_together_beside_the_loop(
    tmp_path: Path, kind: str
) -> None:
    index = tmp_path / "index.yaml"
    index.write_bytes(b'{"entries": {"app": [{"version": "1"}]}}')
    before, after = held(kind, digest="sha256:" + "b" * 64), held(kind)
    noting = Noting(
        **{each.name: getattr(before, each.name) for each in dataclass_fields(before)}
        | {"file": "x.yaml"}
    )
    catalog: Any = Both(noting, replace(after, file="x.yaml"))
    fetch: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    fetch.set_result(Copies(index))
    asked = replace(call(), query=MultiDict({"from": noting.name}))

    response = await comparing.Diff(catalog, Files(catalog, fetch)).handle(asked)

    assert response.status == 200
    assert Noting.threads[-1] != threading.get_ident()
