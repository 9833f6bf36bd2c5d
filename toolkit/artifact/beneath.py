"""Open paths below a directory in which a worker may still run, without following links.

A worker cannot leave its directories. But it can create links there, and replace a directory that
was checked a moment ago by a link. The controller has more rights, so it must not follow them. So a
path is opened name by name, including the directory from which it starts.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final


def opened(root: Path, names: Sequence[str], flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Return a descriptor of what ``names`` lead to below ``root``, whose parent is trusted.

    ``flags`` are those of ``open``, and ``mode`` is that of a file which they make.

    Raises:
        OSError: there is no such file, or a link is on the way.
    """
    place = os.open(root, _WAY)
    for name in names[:-1]:
        place = _next(place, name, _WAY)
    return _next(place, names[-1] if names else ".", flags | _HERE, mode)


def made(root: Path, names: Sequence[str], mode: int = 0o700) -> None:
    """Make a directory below ``root``.

    Raises:
        FileExistsError: there is something.
        OSError: as ``opened``.
    """
    place = opened(root, names[:-1], os.O_PATH | os.O_DIRECTORY)
    try:
        os.mkdir(names[-1], mode, dir_fd=place)
    finally:
        os.close(place)


def listed(root: Path, names: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the names of files and directories in one below ``root``, sorted; is it a directory.

    Links and special files are passed over.

    Raises:
        OSError: as ``opened``.
    """
    place = opened(root, names, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(place) as listing:
            return sorted(
                (child.name, child.is_dir(follow_symlinks=False))
                for child in listing
                if child.is_dir(follow_symlinks=False) or child.is_file(follow_symlinks=False)
            )
    finally:
        os.close(place)


_HERE: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_WAY: Final = os.O_PATH | os.O_DIRECTORY | _HERE


def _next(place: int, name: str, flags: int, mode: int = 0) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=place)
    finally:
        os.close(place)
