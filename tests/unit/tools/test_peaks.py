"""What a process held is known after it has ended."""

import os
import subprocess
import sys

from tests.tools import peaks
from tests.tools.waiting import until

SIZE = 200 << 20
# A child of the child allocates: workers are children of what is watched.
ALLOCATE = f"held = bytearray(b'x') * {SIZE}; print(flush=True); input()"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


async def test_the_peak_of_a_worker_outlives_it() -> None:
    command = [sys.executable, "-c", PARENT, ALLOCATE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: ASYNC220  # it ends below
        assert process.stdin is not None
        assert process.stdout is not None
        with peaks.watching([process.pid]) as held:
            process.stdout.readline()
            await until(lambda: held.largest > SIZE)
            process.stdin.close()
            process.wait()  # its standard input is closed

    assert SIZE < held.largest < 2 * SIZE
    assert peaks.peak(process.pid) == 0


def test_the_peak_of_a_living_process_is_read() -> None:
    assert peaks.peak(os.getpid()) > 1 << 20
