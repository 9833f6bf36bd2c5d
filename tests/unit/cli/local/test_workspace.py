"""Where the tree of a local build begins."""

from pathlib import Path

import pytest

from cli import errors
from cli.local.workspace import Workspace


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_tree_begins_at_the_repository(tmp_path: Path) -> None:
    folder(tmp_path / "repo" / ".git")
    target = folder(tmp_path / "repo" / "clusters" / "one")

    found = Workspace.find(target, spec_path="./elsewhere")

    assert found == Workspace(root=tmp_path / "repo", path="./clusters/one")


def test_without_a_repository_the_spec_tells_the_depth(tmp_path: Path) -> None:
    target = folder(tmp_path / "clusters" / "one")

    found = Workspace.find(target, spec_path="./clusters/one/")

    assert found == Workspace(root=tmp_path, path="./clusters/one")


def test_otherwise_the_directory_is_the_tree(tmp_path: Path) -> None:
    target = folder(tmp_path / "anything")

    found = Workspace.find(target, spec_path="./clusters/one")

    assert found == Workspace(root=target, path="./.")


def test_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="not a directory"):
        Workspace.find(tmp_path / "nowhere", spec_path="")
