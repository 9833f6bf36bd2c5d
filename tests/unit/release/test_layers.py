"""A layer is made once, and again when anything that it is made of has changed."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from release import inside
from release.interpreter import Interpreter
from release.layers import Compiler
from release.trees import Node

TREE = {"app/one.py": Node(content=b"ONE = 1\n"), "app/data": Node(content=b"1")}


@dataclass(frozen=True, kw_only=True)
class Here(Interpreter):
    """The interpreter of the tests, which notes what it runs."""

    ran: list[str] = field(default_factory=list)

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        self.ran.append(arguments[0])
        command = (sys.executable, inside.__file__, *arguments)
        return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Here(root=tmp_path)


def test_an_equal_layer_is_not_made_again(here: Here) -> None:
    compiler = Compiler(python=here, digest="a")
    first = compiler.layer("app", TREE, cached=True)
    here.ran.clear()

    again = compiler.layer("app", dict(reversed(TREE.items())), cached=True)

    assert here.ran == []
    assert again == first
    assert any(path.endswith(".pyc") for path in again[0])


@pytest.mark.parametrize(
    "node",
    [
        Node(content=b"2"),
        Node(content=b"1", mode=0o755),
        Node(target="one.py"),
        Node(folder=True),
    ],
)
def test_a_changed_file_makes_another_layer(here: Here, node: Node) -> None:
    compiler = Compiler(python=here, digest="a")
    _, first = compiler.layer("app", TREE, cached=True)

    _, changed = compiler.layer("app", {**TREE, "app/data": node}, cached=True)

    assert changed.archive != first.archive


@pytest.mark.parametrize(("digest", "cached"), [("b", True), ("a", False)])
def test_a_layer_is_made_where_the_cache_has_none(
    here: Here,
    digest: str,
    cached: bool,  # noqa: FBT001 - a row
) -> None:
    first = Compiler(python=here, digest="a").layer("app", TREE, cached=True)
    here.ran.clear()

    again = Compiler(python=here, digest=digest).layer("app", TREE, cached=cached)

    assert here.ran == ["compile", "compress"]
    assert again == first


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b", b"not gzip"])
def test_a_damaged_layer_is_made_again(here: Here, tmp_path: Path, damage: bytes) -> None:
    compiler = Compiler(python=here, digest="a")
    first = compiler.layer("app", TREE, cached=True)
    (file,) = tmp_path.rglob("*.tar.gz")
    file.write_bytes(damage)

    assert compiler.layer("app", TREE, cached=True) == first


def test_layers_that_were_not_used_for_long_are_removed(here: Here, tmp_path: Path) -> None:
    compiler = Compiler(python=here, digest="a")
    for number in range(8):
        tree = {"app/one.py": Node(content=f"ONE = {number}\n".encode())}
        compiler.layer("app", tree, cached=True)

    assert len([*tmp_path.rglob("*.tar.gz")]) == 6
    here.ran.clear()
    compiler.layer("app", tree, cached=True)
    assert here.ran == []
