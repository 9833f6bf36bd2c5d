"""What somebody tries who runs code in a worker.

An attempt takes an argument and returns what it got; what stopped it comes back as the name of the
exception, or of the error that the kernel gave.
"""

import ctypes
import errno
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_ATTACH = 16  # of ptrace


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    return {name: _attempt(run) for name, run in _ATTEMPTS.items()}


def _attempt(run: Callable[[str], object]) -> Callable[[bytes], bytes]:
    def operation(payload: bytes) -> bytes:
        try:
            return f"done: {run(payload.decode())}".encode()
        except OSError as exc:
            return errno.errorcode.get(exc.errno or 0, type(exc).__name__).encode()

    return operation


def _read(path: str) -> object:
    return Path(path).read_text()


def _list(path: str) -> object:
    return os.listdir(path)  # noqa: PTH208


def _write(path: str) -> object:
    return Path(path).write_text("written")


def _truncate(path: str) -> object:
    return os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))


def _truncate_by_path(path: str) -> object:
    return os.truncate(path, 0)


def _chmod(path: str) -> object:
    return Path(path).chmod(0o777)


def _move(paths: str) -> object:
    return Path(paths.split(maxsplit=1)[0]).rename(paths.split()[1])


def _connect(port: str) -> object:
    with socket.create_connection(("127.0.0.1", int(port)), 5):
        return "connected"


def _send(port: str) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"hello", ("127.0.0.1", int(port)))


def _listen(_: str) -> object:
    with socket.socket() as server:
        return server.bind(("127.0.0.1", 0))


def _unix(path: str) -> object:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect(path)


def _netlink(_: str) -> object:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW):
        return None


def _execute(program: str) -> object:
    return subprocess.run([program], check=True)


def _replace(program: str) -> object:
    return os.execv(program, [program])  # noqa: S606


def _fork(_: str) -> object:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)


def _signal(pid: str) -> object:
    return os.kill(int(pid), signal.SIGURG)


def _trace(pid: str) -> object:
    return _called(_LIBC.ptrace(_ATTACH, int(pid), None, None))


def _read_memory(pid: str) -> object:
    return _called(_LIBC.process_vm_readv(int(pid), None, 0, None, 0, 0))


def _limit(pid: str) -> object:
    return resource.prlimit(int(pid), resource.RLIMIT_NOFILE)


def _outlive(_: str) -> object:
    return _called(_LIBC.prctl(1, 0, 0, 0, 0))


def _show(_: str) -> object:
    return _called(_LIBC.prctl(4, 1, 0, 0, 0))


def _environment(_: str) -> object:
    return dict(os.environ)


def _descriptors(_: str) -> object:
    found = []
    for number in range(256):
        with suppress(OSError):
            status = os.fstat(number)
            found.append(f"{status.st_dev}:{status.st_ino}")
    return found


def _dumpable(_: str) -> object:
    return _called(_LIBC.prctl(3, 0, 0, 0, 0))


def _pid(_: str) -> object:
    return os.getpid()


def _called(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


_ATTEMPTS: Mapping[str, Callable[[str], object]] = {
    "read": _read,
    "list": _list,
    "write": _write,
    "truncate": _truncate,
    "truncate by path": _truncate_by_path,
    "chmod": _chmod,
    "move": _move,
    "connect": _connect,
    "send": _send,
    "listen": _listen,
    "unix": _unix,
    "netlink": _netlink,
    "execute": _execute,
    "replace": _replace,
    "fork": _fork,
    "signal": _signal,
    "trace": _trace,
    "read memory": _read_memory,
    "limit": _limit,
    "outlive": _outlive,
    "show": _show,
    "environment": _environment,
    "descriptors": _descriptors,
    "dumpable": _dumpable,
    "pid": _pid,
}
