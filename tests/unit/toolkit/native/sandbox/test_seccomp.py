"""The filter judges calls as its rules say, on machines that are not this one too.

A program for each machine is run by a small interpreter of classic BPF, call by call.
"""

import errno
import os
import struct

import pytest

from toolkit.native.sandbox import seccomp, syscalls
from toolkit.native.sandbox.syscalls import Call

PID = 4711
MACHINES = sorted(seccomp.MACHINES)
ALLOWED = "allowed"
KILLED = "killed"
GETPID = {"x86_64": 39, "aarch64": 172}


def judge(
    machine: str, number: int, *arguments: int, network: bool = False, audit: int | None = None
) -> str:
    """Return what becomes of a call."""
    row = seccomp.MACHINES[machine]
    program = seccomp.program(machine, seccomp.rules(PID, network=network))
    data = struct.pack("<IIQ", number, row.audit if audit is None else audit, 0)
    data += struct.pack("<6Q", *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    instructions = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        code, then, otherwise, operand = instructions[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                accumulator &= operand
            case 0x15:
                at += then if accumulator == operand else otherwise
            case 0x35:
                at += then if accumulator >= operand else otherwise
            case 0x06:
                return _verdict(operand)
            case _:
                raise AssertionError(code)


def _verdict(value: int) -> str:
    if value == 0x7FFF0000:
        return ALLOWED
    if value == 0x80000000:
        return KILLED
    assert value >> 16 == 5
    return errno.errorcode[value & 0xFFFF]


def number(call: Call, machine: str) -> int:
    found = call.x86_64 if machine == "x86_64" else call.aarch64
    assert found is not None
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_forbidden_calls_are_refused_and_others_are_not(machine: str) -> None:
    numbers = {
        getattr(call, machine) for call in syscalls.FORBIDDEN if getattr(call, machine) is not None
    }

    assert {judge(machine, each) for each in numbers} == {"EPERM"}
    assert judge(machine, GETPID[machine]) == ALLOWED
    assert len(numbers) > 80


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("call", "arguments", "verdict"),
    [
        (syscalls.CLONE, (0x3D0F00,), ALLOWED),  # a thread
        (syscalls.CLONE, (0x1200011,), "EPERM"),  # a process
        (syscalls.CLONE3, (), "ENOSYS"),
        (syscalls.OPENAT2, (), "ENOSYS"),
        (syscalls.KILL, (PID, 9), ALLOWED),
        (syscalls.KILL, (PID + 1, 9), "EPERM"),
        (syscalls.KILL, (-1 & 0xFFFFFFFF, 9), "EPERM"),
        (syscalls.TGKILL, (PID, PID + 5, 23), ALLOWED),
        (syscalls.TGKILL, (1, 1, 23), "EPERM"),
        (syscalls.PRLIMIT64, (0, 7), ALLOWED),
        (syscalls.PRLIMIT64, (1, 7), "EPERM"),
        (syscalls.PRCTL, (15,), ALLOWED),
        (syscalls.PRCTL, (1,), "EPERM"),
        (syscalls.PRCTL, (4, 1), "EPERM"),
        (syscalls.OPENAT, (0, 0, os.O_RDONLY | os.O_CLOEXEC), ALLOWED),
        (syscalls.OPENAT, (0, 0, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), ALLOWED),
        (syscalls.OPENAT, (0, 0, os.O_RDONLY | os.O_TRUNC), "EPERM"),
        (syscalls.SOCKET, (2, 1), "EPERM"),
        (syscalls.CONNECT, (3,), "EPERM"),
    ],
)
def test_arguments_decide(
    machine: str, call: Call, arguments: tuple[int, ...], verdict: str
) -> None:
    assert judge(machine, number(call, machine), *arguments) == verdict


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("family", "kind", "verdict"),
    [
        (2, 1 | 0x80000, ALLOWED),  # IPv4, a stream, closed on exec
        (10, 2, ALLOWED),
        (2, 3, "EPERM"),  # raw
        (1, 1, "EPERM"),  # this machine
        (16, 3, "EPERM"),  # the kernel
        (17, 3, "EPERM"),  # whatever is on the wire
        (40, 1, "EPERM"),  # the host of a virtual machine
    ],
)
def test_the_network_is_the_internet(machine: str, family: int, kind: int, verdict: str) -> None:
    assert judge(machine, number(syscalls.SOCKET, machine), family, kind, network=True) == verdict


def test_another_abi_is_no_way_around() -> None:
    assert judge("x86_64", 0x40000000 | 41, 2, 1) == "ENOSYS"
    assert judge("x86_64", 359, 2, 1, audit=0x40000003) == KILLED
