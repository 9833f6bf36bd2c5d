"""Confine this process permanently, before it reads a byte of untrusted input.

A worker starts with the rights of its parent: its user, its tokens, its network. The input may
compromise it. From here on it has only the rights that its work needs. A restriction that this
kernel does not support is left out (``protection.missing``). If the kernel supports one and the
step fails, the worker ends.
"""

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

from toolkit.native.sandbox import kernel, landlock, seccomp
from toolkit.native.sandbox.confinement import Confinement

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38

_PACKAGES: Final = Path(__file__).resolve().parents[3]
_OURS: Final = ("toolkit", "crds")
_INSTALLED: Final = ("site-packages", "dist-packages")
_SYSTEM: Final = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo")


def enter(confinement: Confinement) -> None:
    """Keep to ``confinement`` from now on.

    Raises:
        OSError: the kernel refused a step that it has.
        RuntimeError: other threads run, which would be free.

    """
    # 1. There are no other threads: Landlock and filters only apply to this thread and its
    # children.
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        raise RuntimeError("a worker has threads before it is confined")

    # 2. Memory and files. RLIMIT_DATA counts private writable memory; RLIMIT_AS would count Go's
    # reservations too. A core file would contain secrets.
    resource.setrlimit(resource.RLIMIT_DATA, (confinement.memory_limit, confinement.memory_limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(confinement.umask)

    # 3. The parent. The signal comes when the thread that started us ends: the one with the
    # parent's event loop. If the parent has ended before this line, the process ends.
    kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != confinement.parent:
        os._exit(0)

    # 4. No program that is run gives more rights; unprivileged filters are bound to this.
    kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)

    # 5. Nobody of our user may trace us or read our memory, other workers included.
    kernel.prctl(_PR_SET_DUMPABLE, 0)

    # 6. Files, including /proc of other processes; signals and connections, if the kernel supports
    # it.
    if landlock.version():
        reads = (*_code(confinement.module), *confinement.reads)
        landlock.restrict(reads=reads, writes=confinement.writes, network=confinement.network)

    # 7. System calls. This is the last step, because it forbids calls of steps 3 and 5.
    if seccomp.is_available():
        seccomp.restrict(network=confinement.network)


def _code(module: str) -> tuple[str, ...]:
    """Return the paths of Python and of C libraries, for later imports.

    This is not all of ``sys.path``, which may contain the working directory, such as a home
    directory.
    """
    packages = {*_OURS, module.partition(".")[0]}
    return (
        *_SYSTEM,
        str(Path(os.__file__).parent),
        *(entry for entry in sys.path if Path(entry).name in _INSTALLED),
        *(str(_PACKAGES / package) for package in sorted(packages)),
    )
