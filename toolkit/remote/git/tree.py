"""A commit's files on disk: first planned, then written, and never outside their directory.

The plan is made from tree objects and sizes alone, so a repository that is too large is refused
before its first byte is written. A tree is hostile input; this is what keeps writes inside:

1. A name is one path component, and none of the spellings of ``.git`` (CVE-2014-9390 and later).
2. A directory holds a name once, so nothing is written through something written before.
3. Directories and files are created, never opened: the target starts empty and is ours alone.
4. Symbolic links come last, and only those that cannot lead out: a relative target whose ``..`` all
   come first and do not pass the root. Others are left out and reported.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dulwich.errors import ObjectFormatException
from dulwich.index import validate_path_element_hfs, validate_path_element_ntfs
from dulwich.objects import parse_tree

from toolkit.remote.git import pack as gitpack
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import Budget
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.sparse import MAX_PATH, Sparse

_EMPTY_TREE: Final = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_GITLINK: Final = 0o160000
_GITMODULES: Final = b".gitmodules"
_MAX_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class Item:
    """An object at a path; the path is bytes, relative, with slashes."""

    path: bytes
    oid: bytes
    executable: bool = False


@dataclass(slots=True)
class Plan:
    """The content of a commit's tree; a directory comes before its content.

    ``gitmodules`` is the file of that name at the root, even if it is not checked out.
    """

    directories: list[bytes] = field(default_factory=list)
    files: list[Item] = field(default_factory=list)
    links: list[Item] = field(default_factory=list)
    submodules: list[Item] = field(default_factory=list)
    gitmodules: bytes | None = None


def make_plan(pack: Pack, tree: bytes, *, budget: Budget, sparse: Sparse) -> Plan:
    """Walk a tree and note what to write.

    Raises:
        GitError: it has a name that must not be written, or more than the budget allows.

    """
    plan = Plan()
    waiting = [(tree, b"")]
    while waiting:
        oid, prefix = waiting.pop()
        for name, mode, child in entries(pack, oid, prefix):
            path = prefix + name
            if path == _GITMODULES and stat.S_ISREG(mode):
                plan.gitmodules = child
            if stat.S_ISDIR(mode):
                if sparse.directory(path):
                    budget.spend("directories")
                    plan.directories.append(path)
                    waiting.append((child, path + b"/"))
            elif sparse.file(path):
                budget.spend("files")
                _list_for(plan, mode, path).append(Item(path, child, bool(mode & 0o100)))
    sparse.check()
    for item in plan.files:
        _spend_file(pack, item, budget)
    return plan


def write(pack: Pack, plan: Plan, into: Path) -> list[str]:
    """Write a plan into an empty directory; return the links that were left out."""
    root = os.fsencode(into) + b"/"
    for path in plan.directories:
        os.mkdir(root + path, 0o755)  # noqa: PTH102  # paths are bytes
    for item in plan.submodules:
        os.mkdir(root + item.path, 0o755)  # noqa: PTH102  # paths are bytes
    for item in sorted(plan.files, key=lambda item: pack.rank(item.oid)):
        _write_file(pack, item, root)
    return [os.fsdecode(item.path) for item in plan.links if not _write_link(pack, item, root)]


def entries(pack: Pack, oid: bytes, prefix: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the name, mode and object of each entry of a tree; ``prefix`` is its path.

    Raises:
        GitError: the tree is damaged, or has an invalid name.
    """
    if oid == _EMPTY_TREE:
        return  # Git has the empty tree built in, so servers need not send it.
    names = set()
    try:
        for name, mode, child in parse_tree(pack.read(oid, gitpack.TREE), 20):
            path = prefix + name
            if name in names or not is_harmless(name) or len(path) > MAX_PATH:
                raise GitError(f"path '{_shown(path)}' in the repository must not be written")
            names.add(name)
            yield name, mode, child
    except (ObjectFormatException, ValueError) as exc:
        raise GitError(f"tree {oid.decode()} in the repository is damaged: {exc}") from exc


def is_harmless(name: bytes) -> bool:
    """Tell whether a name is one component of a path, and no spelling of ``.git``."""
    return (
        name not in {b"", b".", b".."}
        and b"/" not in name
        and len(name) <= _MAX_NAME
        and validate_path_element_ntfs(name)
        and (name.isascii() or not _utf8(name) or validate_path_element_hfs(name))
    )


def _utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _list_for(plan: Plan, mode: int, path: bytes) -> list[Item]:
    if stat.S_ISREG(mode):
        return plan.files
    if stat.S_ISLNK(mode):
        return plan.links
    if stat.S_IFMT(mode) == _GITLINK:
        return plan.submodules
    raise GitError(f"'{_shown(path)}' in the repository has the unknown mode {mode:o}")


def _spend_file(pack: Pack, item: Item, budget: Budget) -> None:
    if item.oid not in pack or pack.kind(item.oid) != gitpack.BLOB:
        raise GitError(f"the server did not send the content of '{_shown(item.path)}'")
    size = pack.size(item.oid)
    if size > budget.limits.file_bytes:
        raise GitError(
            f"'{_shown(item.path)}' in the repository has {size} bytes, "
            f"more than the {budget.limits.file_bytes} allowed in one file"
        )
    budget.spend("bytes in files", size)


def _write_file(pack: Pack, item: Item, root: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o755 if item.executable else 0o644
    with open(os.open(root + item.path, flags, mode), "wb") as file:  # noqa: PTH123  # opened by flags
        pack.copy(item.oid, file.write)


def _write_link(pack: Pack, item: Item, root: bytes) -> bool:
    if pack.size(item.oid) > MAX_PATH:
        return False
    target = pack.read(item.oid, gitpack.BLOB)
    if not _stays_inside(item.path, target):
        return False
    os.symlink(target, root + item.path)  # noqa: PTH211  # paths are bytes
    return True


def _stays_inside(path: bytes, target: bytes) -> bool:
    """Tell whether the target of a link is below the root, for any other links on its path.

    The directory of the link is a real one, so leading ``..`` are safe. A later ``..`` might follow
    another link first, so such targets are refused.
    """
    parts = target.split(b"/")
    ups = 0
    while ups < len(parts) and parts[ups] == b"..":
        ups += 1
    return (
        bool(target)
        and not target.startswith(b"/")
        and b"\0" not in target
        and b".." not in parts[ups:]
        and ups <= path.count(b"/")
    )


def _shown(path: bytes) -> str:
    return repr(path[:200].decode("utf-8", "replace"))[1:-1]
