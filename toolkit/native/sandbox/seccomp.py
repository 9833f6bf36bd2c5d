"""A seccomp filter: limit the system calls of this process (seccomp(2)).

The filter has a list of forbidden calls, because the calls of Go, Python and the C library change
with their versions. A forbidden call returns EPERM. A filter sees numbers and registers, but no
memory. ``clone3`` and ``openat2``, whose flags are in memory, return ENOSYS, so that their callers
use ``clone`` and ``openat``. The program is classic BPF, which the kernel runs at each call.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Final, NamedTuple

from toolkit.native.sandbox import kernel, syscalls
from toolkit.native.sandbox.syscalls import Call

_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2
_GET_ACTION_AVAILABLE: Final = 2

_LOAD: Final = 0x20
_AND: Final = 0x54
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_ALLOW: Final = 0x7FFF0000

_INSTRUCTION: Final = struct.Struct("<HBBI")
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16
_POINTER: Final = 8
"""Bytes, of a process of 64 bits."""
_X32: Final = 0x40000000
"""On x86_64, numbers from here on are of another ABI and mean the same calls."""

_ALL: Final = 0xFFFFFFFF
_INET: Final = (2, 10)
_STREAM_OR_DATAGRAM: Final = (1, 2)
_SOCKET_TYPE: Final = 0xF
_THREAD: Final = 0x10000
_TRUNCATE_AND_ACCESS: Final = os.O_TRUNC | os.O_ACCMODE
_OPENINGS: Final = (0, 1, 2, os.O_TRUNC | 1, os.O_TRUNC | 2)
"""Modes of open, except truncating without writing, which Landlock before version 3 allows."""
_HARMLESS_OPTIONS: Final = (3, 15, 16, 0x53564D41)
"""Harmless options of prctl: reading the core dump setting, naming threads and memory."""


class Machine(NamedTuple):
    """The kernel's number of an architecture, and of its system call ``seccomp``."""

    audit: int
    seccomp: int


MACHINES: Final = MappingProxyType(
    {"x86_64": Machine(0xC000003E, 317), "aarch64": Machine(0xC00000B7, 277)}
)


class Only(NamedTuple):
    """The values that an argument may have, of the bits of ``mask``."""

    argument: int
    mask: int
    values: tuple[int, ...]


class Rule(NamedTuple):
    """A call that is refused with ``error``, unless it keeps to all of ``only``, if any."""

    call: Call
    only: tuple[Only, ...] = ()
    error: int = errno.EPERM


def is_available() -> bool:
    """Tell whether the kernel has filters, and the list supports this machine."""
    machine = _machine()
    if machine is None:
        return False
    try:
        kernel.syscall(machine.seccomp, _GET_ACTION_AVAILABLE, 0, struct.pack("<I", _ERRNO))
    except OSError:
        return False
    return True


def restrict(*, network: bool) -> None:
    """Refuse from now on what ``rules`` forbids; no_new_privs must be set.

    Raises:
        OSError: the kernel refused it.

    """
    text = program(os.uname().machine, rules(os.getpid(), network=network))
    buffer = ctypes.create_string_buffer(text, len(text))
    # struct sock_fprog: the number of instructions, and where they are.
    header = struct.pack("@HP", len(text) // _INSTRUCTION.size, ctypes.addressof(buffer))
    place = ctypes.create_string_buffer(header, len(header))
    kernel.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(place))


def rules(pid: int, *, network: bool) -> tuple[Rule, ...]:
    """Return the forbidden calls of the process ``pid``."""
    itself = Only(0, _ALL, (pid,))
    sockets = (Only(0, _ALL, _INET), Only(1, _SOCKET_TYPE, _STREAM_OR_DATAGRAM))
    return (
        *(Rule(call) for call in syscalls.FORBIDDEN),
        Rule(syscalls.CLONE3, error=errno.ENOSYS),
        Rule(syscalls.OPENAT2, error=errno.ENOSYS),
        Rule(syscalls.CLONE, only=(Only(0, _THREAD, (_THREAD,)),)),
        Rule(syscalls.KILL, only=(itself,)),
        Rule(syscalls.TGKILL, only=(itself,)),
        Rule(syscalls.PRLIMIT64, only=(Only(0, _ALL, (0,)),)),
        Rule(syscalls.PRCTL, only=(Only(0, _ALL, _HARMLESS_OPTIONS),)),
        Rule(syscalls.OPEN, only=(Only(1, _TRUNCATE_AND_ACCESS, _OPENINGS),)),
        Rule(syscalls.OPENAT, only=(Only(2, _TRUNCATE_AND_ACCESS, _OPENINGS),)),
        *([Rule(syscalls.SOCKET, only=sockets)] if network else _NO_NETWORK),
    )


_NO_NETWORK: Final = (Rule(syscalls.SOCKET), Rule(syscalls.CONNECT))


def program(machine: str, forbidden: Iterable[Rule]) -> bytes:
    """Return the program that judges by these rules on a machine of ``MACHINES``."""
    return b"".join(_instructions(machine, forbidden))


def _machine() -> Machine | None:
    # A 32-bit program has other numbers than the name of the machine says.
    return MACHINES.get(os.uname().machine) if struct.calcsize("P") == _POINTER else None


def _instructions(machine: str, forbidden: Iterable[Rule]) -> Iterator[bytes]:
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_JUMP_IF_EQUAL, MACHINES[machine].audit, then=1)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, _NUMBER)
    yield _instruction(_JUMP_IF_AT_LEAST, _X32, otherwise=1)
    yield _instruction(_RETURN, _ERRNO | errno.ENOSYS)
    for rule in forbidden:
        number = rule.call.x86_64 if machine == "x86_64" else rule.call.aarch64
        if number is None:
            continue
        block = [*_judge(rule)]
        yield _instruction(_JUMP_IF_EQUAL, number, otherwise=len(block))
        yield from block
    yield _instruction(_RETURN, _ALLOW)


def _judge(rule: Rule) -> Iterator[bytes]:
    """Yield the instructions for a call; they end with a verdict, or restore the number."""
    refuse = _instruction(_RETURN, _ERRNO | rule.error)
    for only in rule.only:
        yield _instruction(_LOAD, _ARGUMENTS + 8 * only.argument)
        yield _instruction(_AND, only.mask)
        for left, value in zip(range(len(only.values), 0, -1), only.values, strict=True):
            yield _instruction(_JUMP_IF_EQUAL, value, then=left)
        yield refuse
    yield _instruction(_RETURN, _ALLOW) if rule.only else refuse


def _instruction(code: int, operand: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, then, otherwise, operand)
