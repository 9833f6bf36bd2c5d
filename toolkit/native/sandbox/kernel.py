"""System calls that Python has no function for, by ctypes."""

import ctypes
import os
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_LIBC.prctl.restype = ctypes.c_int


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call; ``bytes`` are passed by their address.

    Raises:
        OSError: the kernel refused the call, or does not have it.
    """
    result: int = _LIBC.syscall(ctypes.c_long(number), *map(_argument, arguments))
    if result < 0:
        raise _error()
    return result


def prctl(option: int, value: int, more: int = 0) -> None:
    """Change a property of this process (prctl(2)).

    Raises:
        OSError: the kernel refused it.

    """
    rest = [ctypes.c_ulong(number) for number in (value, more, 0, 0)]
    if _LIBC.prctl(ctypes.c_int(option), *rest) < 0:
        raise _error()


def _argument(value: int | bytes | None) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_char_p(value)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
