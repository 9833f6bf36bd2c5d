"""Make the namespaces of a node, or run a program inside them.

``namespaces.py create DIRECTORY`` makes mount, network and process namespaces and stays as long as
they are wanted. Process 1 in there dies with it, and the kernel then kills all the others; so a
containerd-shim, which outlives its containerd by design, cannot outlive the node.
``namespaces.py enter PID DIRECTORY PROGRAM ARGUMENT…`` runs a program in the namespaces that
process PID created, hands signals on to it and ends as it ends.

A process cannot enter a process namespace itself, only its children can; so both modes fork. Run as
a script of its own (``python -I -S``), so that it starts in a few milliseconds; ``os.setns`` is
there from Python 3.12 on.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

READY = "ready"
"""The file in the node's directory that tells that its mounts are in place."""

HIDDEN = ("/run", "/var/lib", "/var/log")
"""What the node sees its own version of. Programs of the node work there by default."""

_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_MS_SHARED = 1 << 20
_PR_SET_PDEATHSIG = 1

# Settings of the whole machine that the kubelet changes (setupKernelTunables in pkg/kubelet/cm) and
# nobody would change back. The node gets copies, which it may change as it likes.
_COPIED = (
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
)

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Do what the first argument says."""
    mode, *rest = arguments
    if mode == "create":
        _create(Path(rest[0]))
    else:
        pid, directory, *command = rest
        _enter(int(pid), directory, command)


def join(pid: int, namespace: str) -> None:
    """Move the calling thread into a namespace (``net``, ``mnt``, …) of a process."""
    with Path(f"/proc/{pid}/ns/{namespace}").open("rb") as opened:
        enter(opened.fileno(), namespace)


def enter(descriptor: int, namespace: str) -> None:
    """Move the calling thread into the namespace behind an open file of that kind."""
    _check("setns", _libc.setns(descriptor, 0), namespace)


def _create(directory: Path) -> None:
    namespaces = _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWPID
    _check("unshare", _libc.unshare(namespaces), "mount, network and process namespaces")

    def be_first() -> None:
        # Process 1 inherits orphaned processes; the kernel reaps them for it.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        _mount_all(directory)
        (directory / READY).touch()
        while True:
            signal.pause()

    # Process 1 ignores what it does not handle; the others get SIGKILL with it.
    _stand_for(be_first, stop=signal.SIGKILL)


def _enter(pid: int, directory: str, command: list[str]) -> None:
    # The mount namespace last: it is where /proc/PID is looked up.
    for namespace in ("net", "pid_for_children", "mnt"):
        join(pid, namespace)

    def become() -> None:
        os.chdir(directory)
        os.execv(command[0], command)  # noqa: S606 - no shell is the point

    _stand_for(become, stop=signal.SIGTERM)


def _stand_for(child: Callable[[], None], *, stop: signal.Signals) -> None:
    """Fork; in the parent hand SIGTERM on as ``stop``, and end as the child ends."""
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _run(child, alive=theirs)
    os.close(theirs)

    def hand_on(*_: object) -> None:
        # It may just have ended.
        with suppress(ProcessLookupError):
            os.kill(pid, stop)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, hand_on)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        sys.exit(code)
    with suppress(OSError):
        # SIGKILL has no handler to take back.
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


def _run(child: Callable[[], None], *, alive: int) -> NoReturn:
    """Run ``child`` and never return; the kernel kills us when our parent ends."""
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have ended before that; nobody else holds the other end of the pipe.
        if select.select([alive], [], [], 0)[0]:
            os._exit(1)
        child()
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
    os._exit(1)


def _mount_all(directory: Path) -> None:
    # Nothing that is mounted from here on shows outside.
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    _mount("proc", "/proc", kind="proc")
    _mount("tmpfs", "/run", kind="tmpfs", data="mode=0755")
    for setting in _COPIED:
        copy = Path("/run/settings") / Path(setting).name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(Path(setting).read_bytes())
        _mount(str(copy), setting, flags=_MS_BIND)
    for path in ("/var/lib", "/var/log"):
        own = directory / Path(path).name
        own.mkdir(mode=0o755, exist_ok=True)
        _mount(str(own), path, flags=_MS_BIND)
    # The kubelet and containerd hand mounts to containers through peer groups.
    _mount("none", "/", flags=_MS_REC | _MS_SHARED)


def _mount(source: str, target: str, *, kind: str = "none", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check("mount", result, target)


def _check(call: str, result: int, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call} {subject}: {os.strerror(number)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as failure:
        sys.exit(str(failure))
