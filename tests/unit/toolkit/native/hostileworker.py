"""A worker whose operations do what real ones do on bad days."""

import contextlib
import fcntl
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping

from toolkit.errors import PenstockError, StalledError, WaitingError


class UnknownToParentError(StalledError):
    """Defined where the parent never looks."""


def _echo(payload: bytes) -> bytes:
    return payload


def _enlarge(payload: bytes) -> bytes:
    return bytes(int(payload))


def _print(payload: bytes) -> bytes:
    print("noise on standard output", flush=True)  # noqa: T201
    os.write(1, b"more noise")
    return payload


def _read_stdin(_: bytes) -> bytes:
    return sys.stdin.buffer.read()


def _identity(_: bytes) -> bytes:
    return f"{os.getpid()} {os.getsid(0)}".encode()


def _mark(payload: bytes) -> bytes:
    with open(payload, "ab") as file:  # noqa: PTH123
        file.write(f"{os.getpid()}\n".encode())
    return _sleep(b"60")


def _sleep(payload: bytes) -> bytes:
    time.sleep(float(payload))
    return b"slept"


def _exit(payload: bytes) -> bytes:
    sys.stderr.write("the disk is on fire\n")
    sys.stderr.flush()
    os._exit(int(payload))


def _die(payload: bytes) -> bytes:
    sys.stderr.write(payload.decode())
    sys.stderr.flush()
    # The shell that runs a command in the background lets it ignore SIGQUIT, and it is inherited.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGQUIT)  # as Go ends a process
    return b""


def _kill(payload: bytes) -> bytes:
    os.kill(os.getpid(), int(payload))
    return b""


def _eat(_: bytes) -> bytes:
    hoard = [bytearray(16 << 20) for _ in range(1000)]
    return str(len(hoard)).encode()


def _stall(payload: bytes) -> bytes:
    raise StalledError(payload.decode(), reason="InvalidURL")


def _wait(_: bytes) -> bytes:
    raise WaitingError("not yet", retry_after=7.5)


def _subclass(_: bytes) -> bytes:
    raise UnknownToParentError("private trouble")


def _plain(_: bytes) -> bytes:
    raise ValueError("no such thing")


def _chatter(payload: bytes) -> bytes:
    sys.stderr.write("first words\n" + "noise\n" * int(payload) + "last words\n")
    sys.stderr.flush()
    os._exit(9)


def _base(_: bytes) -> bytes:
    raise PenstockError("just so")


def _say(payload: bytes) -> bytes:
    """Write to the pipe of the answers, past the loop that serves."""
    for descriptor in range(3, 32):
        with contextlib.suppress(OSError):
            if descriptor_is_answers(descriptor):
                os.write(descriptor, payload)
    return b"said"


def descriptor_is_answers(descriptor: int) -> bool:
    writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    return writable and stat.S_ISFIFO(os.fstat(descriptor).st_mode)


def _say_later(payload: bytes) -> bytes:
    def later() -> None:
        while not os.path.exists(payload):  # noqa: PTH110
            time.sleep(0.01)
        _say(bytes(1 << 20))

    threading.Thread(target=later, daemon=True).start()
    return b"soon"


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    return {
        "echo": _echo,
        "enlarge": _enlarge,
        "print": _print,
        "stdin": _read_stdin,
        "identity": _identity,
        "mark": _mark,
        "sleep": _sleep,
        "exit": _exit,
        "die": _die,
        "kill": _kill,
        "eat": _eat,
        "stall": _stall,
        "wait": _wait,
        "subclass": _subclass,
        "plain": _plain,
        "chatter": _chatter,
        "base": _base,
        "say": _say,
        "say later": _say_later,
    }
