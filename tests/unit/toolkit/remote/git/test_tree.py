"""Trees are written as they are, or refused before anything is written outside."""

import hashlib
import os
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.gitrepository import Repository, executable, link, submodule
from toolkit.errors import StalledError
from toolkit.remote.git import tree as gittree
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import Budget, Limits
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.sparse import Sparse
from toolkit.remote.git.tree import Plan


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "a.git")


def write(
    repository: Repository,
    into: Path,
    *,
    sparse: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> tuple[Plan, list[str]]:
    """Pack the branch with git, plan and write it."""
    path = into.parent / "a.pack"
    listing = repository.git("rev-list", "--objects", "--all")
    objects = b"\n".join(line[:40] for line in listing.splitlines())
    path.write_bytes(repository.git("pack-objects", "--stdout", "-q", stdin=objects))
    limits = limits or Limits()
    with Pack(path, limits=limits) as pack:
        tree = repository.revision("main^{tree}").encode()
        plan = gittree.make_plan(pack, tree, budget=Budget(limits), sparse=Sparse(sparse))
        into.mkdir()
        return plan, gittree.write(pack, plan, into)


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_files_are_written_with_content_and_mode(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a/b/c.yaml": "1", "run.sh": executable("#!/bin/sh"), "ü.txt": "2", "e": ""})

    write(repository, tmp_path / "out")

    expected = {"a/b/c.yaml": "1", "run.sh": "#!/bin/sh", "ü.txt": "2", "e": ""}
    assert files(tmp_path / "out") == expected
    assert (tmp_path / "out/run.sh").stat().st_mode & 0o111 == 0o111
    assert (tmp_path / "out/e").stat().st_mode & 0o111 == 0


def test_same_content_may_lie_at_many_paths(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a": "same", "b": executable("same"), "c/a": "same"})

    write(repository, tmp_path / "out")

    assert set(files(tmp_path / "out").values()) == {"same"}
    (tmp_path / "out/a").write_text("changed")
    assert (tmp_path / "out/b").read_text() == "same"


@pytest.mark.parametrize(
    ("path", "target"),
    [("l", "a/b"), ("d/l", "../a"), ("d/e/l", "../../a/b"), ("l", "missing"), ("l", ".")],
)
def test_link_that_stays_inside_is_written(
    repository: Repository, tmp_path: Path, path: str, target: str
) -> None:
    repository.commit({"a/b": "1", path: link(target)})

    _, left_out = write(repository, tmp_path / "out")

    assert left_out == []
    assert os.readlink(tmp_path / "out" / path) == target  # noqa: PTH115  # kept as written


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("l", "/etc/passwd"),
        ("l", ".."),
        ("l", "../x"),
        ("d/l", "../../x"),
        ("d/l", "a/../../../x"),
        ("l", "a/../b"),
        ("l", ""),
        ("l", "x" * 5000),
    ],
)
def test_link_that_leads_or_might_lead_out_is_left_out(
    repository: Repository, tmp_path: Path, path: str, target: str
) -> None:
    repository.commit({"a/b": "1", path: link(target)})

    _, left_out = write(repository, tmp_path / "out")

    assert left_out == [path]
    assert not os.path.lexists(tmp_path / "out" / path)


@given(
    links=st.dictionaries(
        st.sampled_from(["l", "m", "d/l", "d/e/l", "d/m"]),
        st.lists(st.sampled_from(["..", "l", "m", "d", "e", ".", ""]), max_size=5).map("/".join),
        min_size=1,
    )
)
def test_no_combination_of_links_leads_out(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("links").resolve()
    (root / "d/e").mkdir(parents=True)

    for path, target in links.items():
        if gittree._stays_inside(path.encode(), target.encode()):
            os.symlink(target, root / path)  # noqa: PTH211  # as it is

    for path in links:
        try:
            reached = (root / path).resolve(strict=True)
        except (OSError, RuntimeError):
            continue  # A loop, or to nowhere.
        assert reached == root or root in reached.parents


@pytest.mark.parametrize(
    "name",
    [
        b"..",
        b".",
        b"",
        b".git",
        b".GIT",
        b".Git",
        b"git~1",
        b".git ",
        b".git.",
        b".git::$INDEX_ALLOCATION",
        ".g\u200cit".encode(),
        b"a/b",
        b"../x",
        b"/etc",
        b"x" * 256,
    ],
)
@pytest.mark.parametrize("mode", ["100644", "40000", "120000", "160000"])
def test_name_that_must_not_be_written_is_refused(
    repository: Repository, tmp_path: Path, name: bytes, mode: str
) -> None:
    blob = repository.raw_object("blob", b"x")
    oid = repository.raw_tree([("100644", b"f", blob)]) if mode == "40000" else blob
    tree = repository.raw_tree([(mode, name, oid)])
    raw = repository.git("cat-file", "tree", tree)
    body = [(4, b"x"), (2, raw)]
    body += [(2, repository.git("cat-file", "tree", oid))] if mode == "40000" else []

    with pytest.raises(GitError, match=r"must not be written|is damaged"):
        write_raw(tmp_path, tree, body)

    assert list((tmp_path / "out").iterdir()) == []


def write_raw(tmp_path: Path, tree: str, objects: list[tuple[int, bytes]]) -> None:
    """Write a tree from a pack of raw objects, which git would not pack itself."""
    out = b"PACK" + struct.pack(">II", 2, len(objects))
    for kind, data in objects:
        size = len(data)
        first, size = {4: 3, 2: 2}[kind] << 4 | size & 15, size >> 4
        while size:
            out += bytes([first | 0x80])
            first, size = size & 0x7F, size >> 7
        out += bytes([first]) + zlib.compress(data)
    (tmp_path / "raw.pack").write_bytes(out + hashlib.sha1(out).digest())  # noqa: S324
    (tmp_path / "out").mkdir()
    with Pack(tmp_path / "raw.pack", limits=Limits()) as pack:
        plan = gittree.make_plan(pack, tree.encode(), budget=Budget(Limits()), sparse=Sparse())
        gittree.write(pack, plan, tmp_path / "out")


def test_file_and_link_of_one_name_are_refused(repository: Repository, tmp_path: Path) -> None:
    target = repository.raw_object("blob", b"/tmp")
    blob = repository.raw_object("blob", b"x")
    inner = repository.raw_tree([("100644", b"f", blob)])
    tree = repository.raw_tree([("120000", b"d", target), ("40000", b"d", inner)])
    objects = [(4, b"/tmp"), (4, b"x")]
    objects += [(2, repository.git("cat-file", "tree", oid)) for oid in (inner, tree)]

    with pytest.raises(GitError, match="must not be written"):
        write_raw(tmp_path, tree, objects)


def test_path_that_is_too_long_is_refused(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"/".join(["d" * 200] * 21): "deep"})

    with pytest.raises(GitError, match="must not be written"):
        write(repository, tmp_path / "out")


def test_commit_without_files_is_an_empty_directory(repository: Repository, tmp_path: Path) -> None:
    repository.commit({})

    write(repository, tmp_path / "out")

    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(files=3), "more files than the 3 allowed"),
        (Limits(tree_bytes=10), "more bytes in files than the 10 allowed"),
        (Limits(file_bytes=7), "'d/large' in the repository has 8 bytes"),
    ],
)
def test_repository_beyond_a_limit_is_refused_before_it_is_written(
    repository: Repository, tmp_path: Path, limits: Limits, why: str
) -> None:
    repository.commit({"a": "1", "b": "12", "c": "123", "d/large": "12345678"})

    with pytest.raises(GitError, match=why):
        write(repository, tmp_path / "out", limits=limits)

    assert not (tmp_path / "out").exists()


def test_directories_are_bounded_like_files(repository: Repository, tmp_path: Path) -> None:
    tree = repository.raw_tree([])
    for _ in range(3):
        tree = repository.raw_tree([("40000", b"%d" % i, tree) for i in range(10)])
    repository.commit_tree(tree)

    with pytest.raises(GitError, match="more directories than the 100 allowed"):
        write(repository, tmp_path / "out", limits=Limits(files=100))


@pytest.mark.parametrize("directory", ["apps/web", "./apps/web/", "/apps/web"])
def test_sparse_checkout_writes_only_its_directories(
    repository: Repository, tmp_path: Path, directory: str
) -> None:
    repository.commit(
        {"apps/web/a": "1", "apps/web/b/c": "2", "apps/website/a": "3", "apps/x": "4", "r": "5"}
    )

    write(repository, tmp_path / "out", sparse=(directory,))

    assert files(tmp_path / "out") == {"apps/web/a": "1", "apps/web/b/c": "2"}


def test_sparse_checkout_of_the_root_is_everything(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a/b": "1", "c": "2"})

    write(repository, tmp_path / "out", sparse=("a", "."))

    assert files(tmp_path / "out") == {"a/b": "1", "c": "2"}


def test_limits_count_only_what_is_wanted(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"small/a": "1"} | {f"large/{i}": "x" for i in range(20)})

    write(repository, tmp_path / "out", sparse=("small",), limits=Limits(files=5))

    assert files(tmp_path / "out") == {"small/a": "1"}


def test_sparse_directory_that_is_missing_is_named(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a/b": "1", "file": "2"})

    for missing in ("nope", "a/nope", "file"):
        with pytest.raises(GitError, match=f"directory '{missing}' is not in the repository"):
            write(repository, tmp_path / "out", sparse=("a", missing))


def test_sparse_directory_outside_stalls() -> None:
    with pytest.raises(StalledError, match=r"\.\./secret"):
        Sparse(("../secret",))


def test_sparse_directory_that_no_tree_has_stalls() -> None:
    """The directories above one of 500,000 levels take minutes, and more memory than there is."""
    with pytest.raises(StalledError, match="more than 4000 characters"):
        Sparse(("a/" * 20_000,))


def test_submodule_is_an_empty_directory(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"vendor/lib": submodule("a" * 40), "a": "1"})

    plan, _ = write(repository, tmp_path / "out")

    assert [item.path for item in plan.submodules] == [b"vendor/lib"]
    assert list((tmp_path / "out/vendor/lib").iterdir()) == []
