"""Files of an image by their paths, as tar archives whose bytes depend on nothing else.

Everything belongs to root and is as old as the epoch. Folders need no entry of their own. The
distribution's folders ``/bin``, ``/lib``, ``/lib64`` and ``/sbin`` are links into ``/usr``, so a
path that goes through them is rewritten.
"""

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final

MERGED: Final = ("bin", "lib", "lib64", "sbin")
"""Folders of the root that are links to those of the same name in ``/usr``."""

_PERMISSIONS: Final = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A file, or a symbolic link to ``target``, or else a folder whose mode is not 0755."""

    content: bytes = b""
    mode: int = 0o644
    target: str = ""
    folder: bool = False


Tree = Mapping[str, Node]
"""What is in an image; the keys are paths without a slash in front."""


def archive(tree: Tree) -> bytes:
    """Return ``tree`` as a tar archive, folders before what is in them, in the order of names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as opened:
        for path, node in sorted({**_parents(tree), **tree}.items()):
            opened.addfile(_entry(path, node), io.BytesIO(node.content))
    return buffer.getvalue()


def read(content: bytes) -> dict[str, Node]:
    """Return the files and links of a tar archive of a distribution's package."""
    found: dict[str, Node] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        for member in opened:
            path = merged(str(PurePosixPath(member.name)))
            if member.issym():
                found[path] = Node(target=member.linkname)
            elif member.islnk():
                found[path] = found[merged(str(PurePosixPath(member.linkname)))]
            elif (file := opened.extractfile(member)) is not None:
                # Nobody in the image is another user, so rights of owners suffice.
                found[path] = Node(content=file.read(), mode=member.mode & _PERMISSIONS)
    return found


def merged(path: str) -> str:
    """Return where a path is in a file system whose ``/bin``, ``/lib`` and others are links."""
    return f"usr/{path}" if path.partition("/")[0] in MERGED else path


def write(tree: Tree, directory: Path) -> None:
    """Write files and links below ``directory``, to run what is in them."""
    for path, node in tree.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if node.target:
            place.symlink_to(node.target)
        elif node.folder:
            place.mkdir(exist_ok=True)
        else:
            place.write_bytes(node.content)
            place.chmod(node.mode)


def digest(tree: Tree) -> str:
    """Return a digest of all that an archive of the tree holds, in hexadecimal."""
    whole = sha256()
    for path, node in sorted(tree.items()):
        content = sha256(node.content).hexdigest()
        whole.update(f"{path}\0{node.mode} {node.folder} {content} {node.target}\0".encode())
    return whole.hexdigest()


def size(tree: Tree) -> int:
    """Return how many bytes the files have."""
    return sum(len(node.content) for node in tree.values())


def _parents(tree: Tree) -> dict[str, Node]:
    return {
        str(parent): Node(folder=True, mode=_PERMISSIONS)
        for path in tree
        for parent in _above(PurePosixPath(path))
    }


def _above(path: PurePosixPath) -> Iterator[PurePosixPath]:
    yield from (parent for parent in path.parents if parent.name)


def _entry(path: str, node: Node) -> tarfile.TarInfo:
    # Owner root and the time 0 are the defaults.
    entry = tarfile.TarInfo(path)
    entry.mode = node.mode
    if node.target:
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, node.target, 0o777
    elif node.folder:
        entry.type = tarfile.DIRTYPE
    else:
        entry.size = len(node.content)
    return entry
