"""Temporary directories that are removed after their process has ended in any way.

Each process uses one directory below a parent that all processes of a user share, and holds a lock
on it, which the kernel releases when the process ends. So the next process that starts finds and
removes the directory of a killed one, but not that of a running one, such as a second replica on
the same machine. If ``/tmp`` is an emptyDir of a Pod, this also covers a restarted container.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A directory that is this process's until it is released."""

    path: Path
    lock: int

    def release(self) -> None:
        """Remove the directory with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.with_suffix(_LOCK).unlink(missing_ok=True)
        os.close(self.lock)


@contextmanager
def claimed() -> Iterator[Path]:
    """Give a directory below the user's parent for the length of the block."""
    claim = take(parent())
    try:
        yield claim.path
    finally:
        claim.release()


def parent(purpose: str = "") -> Path:
    """Return the directory below ``TMPDIR`` that all processes of this user share.

    Files for a ``purpose`` are in a directory of that name, to which a worker can be given access.

    Raises:
        PermissionError: another user has created the directory, or may write to it.
    """
    shared = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    shared.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = shared.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _OTHERS:
        raise PermissionError(
            f"'{shared}' is not a directory of this user alone: remove it, or set TMPDIR"
        )
    below = shared / purpose
    below.mkdir(mode=0o700, exist_ok=True)
    return below


def take(root: Path) -> Claim:
    """Claim a new directory below ``root``, and remove those of processes that are gone."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    turn = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # One at a time, so that no process sees a lock file that is not locked yet.
        fcntl.flock(turn, fcntl.LOCK_EX)
        for left in root.glob(f"*{_LOCK}"):
            _remove_if_left(left)
        own = root / f"{os.getpid()}-{secrets.token_hex(4)}"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        descriptor = os.open(own.with_suffix(_LOCK), flags, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        own.mkdir(mode=0o700)
    finally:
        os.close(turn)
    return Claim(path=own, lock=descriptor)


def _remove_if_left(lock: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


_OTHERS: Final = 0o077
_LOCK: Final = ".lock"
