"""The files of one owner on a local disk: atomic writes, and the files beside artifacts.

Every write renames a finished file. The functions block; call them in a thread.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from toolkit.artifact import about, layout
from toolkit.artifact.about import About
from toolkit.artifact.digest import ALGORITHMS
from toolkit.artifact.retention import Stored
from toolkit.errors import TransientError


@contextmanager
def unfinished(directory: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Give a file in ``directory`` that is gone afterwards unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=layout.UNFINISHED, dir=directory)
    path = Path(name)
    try:
        with open(descriptor, "wb", buffering=1 << 20) as file:  # noqa: PTH123  # a descriptor
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def vouch(target: Path, digest: str) -> None:
    """Write the digest file; a reader before it is written finds the file damaged."""
    if recorded(target) == digest:
        return
    with unfinished(target.parent) as (temporary, file):
        file.write(digest.encode())
        file.flush()
        temporary.replace(target.parent / f"{layout.DIGEST}{target.name}")


def recorded(target: Path) -> str:
    """Return the digest that was stored for a file, or nothing."""
    try:
        text = (target.parent / f"{layout.DIGEST}{target.name}").read_text()
    except OSError:
        return ""
    return text if text.partition(":")[0] in ALGORITHMS else ""


def tell(target: Path, told: About) -> None:
    """Write the file with revision and metadata."""
    beside, data = target.parent / f"{layout.ABOUT}{target.name}", told.encoded()
    with contextlib.suppress(OSError):
        if beside.read_bytes() == data:
            return
    with unfinished(target.parent) as (temporary, file):
        file.write(data)
        file.flush()
        temporary.replace(beside)


def told(target: Path, digest: str) -> About:
    """Return the recorded revision and metadata of a file with this digest."""
    try:
        with (target.parent / f"{layout.ABOUT}{target.name}").open("rb") as file:
            return about.read(file.read(about.LIMIT + 1), digest)
    except OSError:
        return About(digest=digest)


def link(target: Path) -> None:
    """Point ``latest`` at the newest artifact, replacing the old link in one step.

    Raises:
        TransientError: the disk refused.
    """
    newest = target.parent / layout.latest(target.name)
    if newest.is_symlink() and str(newest.readlink()) == target.name:
        return
    temporary = target.parent / f"{layout.UNFINISHED}{os.getpid()}-{time.monotonic_ns()}"
    try:
        temporary.symlink_to(target.name)
        temporary.replace(newest)
    except OSError as exc:
        temporary.unlink(missing_ok=True)
        message = f"cannot point '{newest.name}' at '{target.name}': {exc.strerror}"
        raise TransientError(message, reason="SymlinkUpdateFailed") from exc


def sync(directory: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def listed(directory: Path) -> tuple[list[Stored], list[Stored]]:
    """Return the artifacts of a directory, and the unfinished files."""
    files, half = [], []
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as listing:
        for entry in listing:
            status = entry.stat(follow_symlinks=False)
            stored = Stored(name=entry.name, modified=status.st_mtime, size=status.st_size)
            if entry.name.startswith(layout.UNFINISHED):
                half.append(stored)
            elif entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                files.append(stored)
    return files, half


def marked(directory: Path) -> list[str]:
    """Return the names of the files that tell who is charged."""
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as listing:
        return [entry.name for entry in listing if entry.name.startswith(layout.CHARGED)]
    return []


def mark(directory: Path, namespace: str) -> None:
    """Write the file that tells who is charged, or none if ``namespace`` is empty."""
    wanted = f"{layout.CHARGED}{namespace}" if namespace else ""
    if wanted:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / wanted).touch()
    for name in marked(directory):
        if name != wanted:
            (directory / name).unlink(missing_ok=True)


def below(root: Path, depth: int) -> Iterator[Path]:
    """Yield the directories ``depth`` levels below ``root``; hidden ones and links are skipped."""
    if depth == 0:
        yield root
        return
    with contextlib.suppress(FileNotFoundError), os.scandir(root) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from below(Path(entry.path), depth - 1)
