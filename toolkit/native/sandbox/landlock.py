"""Landlock: limit the files that this process may open, and its signals and connections.

A domain cannot be left, and applies to threads that are started later. Newer kernels can restrict
more (``linux/landlock.h``, landlock(7)). Restrictions that this kernel does not support are left
out, and ``seccomp`` covers most of them. A process in a domain cannot trace processes outside of
it.
"""

import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from toolkit.native.sandbox import kernel

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_ATTRIBUTES: Final = struct.Struct("<QQQ")
_RULE: Final = struct.Struct("<Qi")

_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIRECTORY: Final = 1 << 3
_REMOVE: Final = 1 << 4 | 1 << 5
_MAKE: Final = 1 << 7 | 1 << 8 | 1 << 12  # directories, files, symbolic links
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_READ: Final = _READ_FILE | _READ_DIRECTORY
_WRITE: Final = _READ | _WRITE_FILE | _REMOVE | _MAKE | _REFER | _TRUNCATE
_OF_FILES: Final = _WRITE_FILE | _READ_FILE | _TRUNCATE

_BIND: Final = 1 << 0
_CONNECT: Final = 1 << 1
_SCOPES: Final = 1 << 0 | 1 << 1  # abstract unix sockets, signals

_FILE_RIGHTS: Final = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Versions, and the number of rights to files that each supports, from the lowest bit on."""
_NETWORK_SINCE: Final = 4
_SCOPES_SINCE: Final = 6


def version() -> int:
    """Return the version of the kernel's Landlock; 0 if there is none, or it is not allowed."""
    try:
        return kernel.syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(*, reads: Iterable[str], writes: Iterable[str], network: bool) -> None:
    """Allow opening only files below these paths, which need not exist.

    Raises:
        OSError: the kernel refused it.
    """
    known = version()
    files = (1 << max(bits for since, bits in _FILE_RIGHTS if known >= since)) - 1
    ports = 0 if known < _NETWORK_SINCE else _BIND if network else _BIND | _CONNECT
    scopes = 0 if known < _SCOPES_SINCE else _SCOPES
    # A field that is zero may be beyond the structure that an old kernel accepts.
    attributes = _ATTRIBUTES.pack(files, ports, scopes)
    ruleset = kernel.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for paths, rights in ((reads, _READ), (writes, _WRITE)):
            for path in paths:
                _allow(ruleset, path, rights & files)
        kernel.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # A path that does not exist cannot be opened later either.
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(rights, place), 0)
    finally:
        os.close(place)
