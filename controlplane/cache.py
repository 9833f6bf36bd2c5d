"""Where built programs and running instances live, and how processes take turns there.

Everything sits under the user's cache directory, so a second clone of the repository builds
nothing again. Turns are taken with ``flock(2)``: the kernel drops a lock with the last descriptor
of its holder, so no interrupt and no ``kill -9`` leaves one behind.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def directory(*parts: str) -> Path:
    """Return (and make) a directory below ``$XDG_CACHE_HOME/penstock`` that only we may enter."""
    # The XDG base directory specification: a relative value is invalid and is ignored.
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".cache"
    path = base.joinpath("penstock", *parts)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def try_lock(path: Path) -> int | None:
    """Lock ``path`` and return the descriptor that holds the lock, or None if it is taken.

    A holder may remove the file before it lets go, so that no lock files pile up.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        # A lock on a file that was removed meanwhile would keep nobody out.
        if _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Tell whether somebody holds the lock on ``path``, without making the file."""
    if not path.exists():
        return False
    descriptor = try_lock(path)
    if descriptor is None:
        return True
    # It is a leftover of a killed holder, or was made between our two looks.
    path.unlink()
    os.close(descriptor)
    return False


@contextmanager
def locked(path: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on ``path``; call ``waiting`` once if another process has it."""
    descriptor = try_lock(path)
    if descriptor is None:
        waiting()
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
