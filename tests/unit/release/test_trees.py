"""Trees of files, and archives of them."""

import io
import tarfile
from pathlib import Path

import pytest

from release import trees
from release.trees import Node


def test_archive_does_not_depend_on_the_order_of_files() -> None:
    one, two = Node(content=b"1"), Node(target="one")

    assert trees.archive({"a/one": one, "two": two}) == trees.archive({"two": two, "a/one": one})


def test_archive_holds_folders_before_files_and_belongs_to_root_at_the_epoch() -> None:
    content = trees.archive(
        {"a/b/c": Node(content=b"c", mode=0o755), "tmp": Node(folder=True, mode=0o1777)}
    )

    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        members = opened.getmembers()
    assert [(each.name, each.mode) for each in members] == [
        ("a", 0o755),
        ("a/b", 0o755),
        ("a/b/c", 0o755),
        ("tmp", 0o1777),
    ]
    assert {(each.uid, each.gid, each.uname, each.mtime) for each in members} == {(0, 0, "", 0)}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("lib/ld.so", "usr/lib/ld.so"),
        ("sbin", "usr/sbin"),
        ("usr/lib/a", "usr/lib/a"),
        ("library", "library"),
    ],
)
def test_folders_of_the_root_are_those_of_usr(path: str, place: str) -> None:
    assert trees.merged(path) == place


def test_links_of_a_package_are_read() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as opened:
        file = tarfile.TarInfo("./lib/file")
        file.size, file.mode = 4, 0o4777
        opened.addfile(file, io.BytesIO(b"text"))
        for name, kind, target in (
            ("./hard", tarfile.LNKTYPE, "./lib/file"),
            ("./soft", tarfile.SYMTYPE, "lib/file"),
        ):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, target
            opened.addfile(link)

    found = trees.read(archive.getvalue())

    # The right to become another user is not taken over.
    text = Node(content=b"text", mode=0o755)
    assert found == {"usr/lib/file": text, "hard": text, "soft": Node(target="lib/file")}


def test_written_tree_can_be_run(tmp_path: Path) -> None:
    tree = {
        "bin/program": Node(content=b"#!", mode=0o755),
        "alias": Node(target="bin/program"),
        "tmp": Node(folder=True),
    }

    trees.write(tree, tmp_path)

    assert (tmp_path / "alias").resolve() == tmp_path / "bin/program"
    assert (tmp_path / "bin/program").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "tmp").is_dir()
