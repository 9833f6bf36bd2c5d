"""Become another program that does not outlive the process that asked for it.

``python -I -S launcher.py PARENT PROGRAM ARGUMENT…`` asks the kernel for SIGKILL at the end of its
parent (``PR_SET_PDEATHSIG``, prctl(2)), which survives ``execve``, and then becomes PROGRAM.
A launcher and not a ``preexec_fn``: Python code between fork and exec may deadlock on any lock
that another thread held. It imports nothing of ours, so that it starts in a few milliseconds.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replace this process by the program that the arguments name."""
    parent, *command = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before prctl was called; then nobody would send the signal.
    if os.getppid() != int(parent):
        sys.exit(1)
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
