"""Make a new tree from an old one: write some files, and keep all other entries by their ids.

Only the directories on the path of a written file are read, and only these directories and the
files are created. Modes, links and submodules beside them stay.
"""

import stat
from collections.abc import Iterable
from typing import Final, TypeAlias

from dulwich.objects import Blob, ObjectID, ShaFile, Tree

from toolkit.remote.git import tree as gittree
from toolkit.remote.git.errors import GitError, GitSpecError
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.wire import NewFile

_DIRECTORY: Final = 0o040000
_FILE: Final = 0o100644

_Node: TypeAlias = "dict[bytes, _Node | NewFile]"


def write(pack: Pack | None, tree: bytes | None, files: Iterable[NewFile]) -> "Edited":
    """Return the tree with these files; without an old tree they are the only files.

    Raises:
        GitSpecError: a path is invalid in a repository, or is given twice.
        GitError: something else is at the path of a file or its directory.
    """
    edited = Edited(pack)
    edited.tree = edited.directory(tree, _nested(files), b"")
    return edited


class Edited:
    """The id of a tree, and the objects that are new in it."""

    def __init__(self, pack: Pack | None) -> None:
        self.tree = b""
        self.objects: list[ShaFile] = []
        self._pack = pack

    def directory(self, oid: bytes | None, wanted: _Node, prefix: bytes) -> bytes:
        """Write one directory with those below it, and return its id."""
        found = self._entries(oid, prefix)
        for name, node in wanted.items():
            path = prefix + name
            old = found.get(name)
            if isinstance(node, NewFile):
                found[name] = self._file(old, node)
                continue
            if old is not None and not stat.S_ISDIR(old[0]):
                raise GitError(_in_the_way(path, "a directory"))
            below = self.directory(old[1] if old else None, node, path + b"/")
            found[name] = (_DIRECTORY, below)
        made = Tree()
        for name, (mode, child) in found.items():
            made.add(name, mode, ObjectID(child))
        return self._add(made, oid)

    def _entries(self, oid: bytes | None, prefix: bytes) -> dict[bytes, tuple[int, bytes]]:
        if oid is None or self._pack is None:
            return {}
        found = gittree.entries(self._pack, oid, prefix)
        return {name: (mode, child) for name, mode, child in found}

    def _file(self, old: tuple[int, bytes] | None, file: NewFile) -> tuple[int, bytes]:
        if old is None:
            return _FILE, self._add(Blob.from_string(file.content), None)
        if not stat.S_ISREG(old[0]):
            raise GitError(_in_the_way(file.path.encode(), "a file"))
        if file.keep:
            return old
        return old[0], self._add(Blob.from_string(file.content), old[1])

    def _add(self, made: ShaFile, old: bytes | None) -> bytes:
        """Keep an object that is new, and return its id."""
        oid = bytes(made.id)
        if oid != old:
            self.objects.append(made)
        return oid


def _nested(files: Iterable[NewFile]) -> _Node:
    top: _Node = {}
    for file in files:
        *parents, name = file.path.encode().split(b"/")
        if not all(map(gittree.is_harmless, [*parents, name])):
            raise GitSpecError(f"{file.path!r} is not a path of a file in a repository")
        at: _Node = top
        for parent in parents:
            below = at.setdefault(parent, {})
            if isinstance(below, NewFile):
                raise GitSpecError(f"'{below.path}' cannot be both a file and a directory")
            at = below
        if name in at:
            raise GitSpecError(f"'{file.path}' is given twice, or is a directory as well")
        at[name] = file
    return top


def _in_the_way(path: bytes, wanted: str) -> str:
    shown = repr(path.decode("utf-8", "replace"))
    return f"{shown} in the repository is not {wanted}: remove it, or choose another path"
