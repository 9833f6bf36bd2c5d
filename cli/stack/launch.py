"""Execute another program that the kernel ends when the supervisor has ended.

``python -I -S launch.py FD PROGRAM ARGUMENT...``: FD is the reading end of a pipe; only the
supervisor has the writing end. The kernel signals the owner of the reading end when the last writer
is closed (``fcntl(2)``, O_ASYNC and F_SETSIG), for any end of the supervisor. The setting survives
``exec``, so the program needs no change. No module of ours is imported, so that it starts in a few
milliseconds.
"""

import fcntl
import os
import select
import signal
import sys


def main() -> None:
    """Arrange the end, then become the program."""
    pipe, program, *arguments = int(sys.argv[1]), *sys.argv[2:]
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(pipe, 0)
    if poll.poll(0):
        sys.exit("the supervisor has gone")
    os.execv(program, [program, *arguments])  # noqa: S606 -- its own command line, no shell


if __name__ == "__main__":
    main()
