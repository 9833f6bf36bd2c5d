"""The worker that reads charts, as one process for all tests of a run, asked without a loop.

It has the engine with Helm, which no test process may load, and is not confined.
"""

import atexit
import subprocess
import sys
from functools import cache
from typing import IO

from toolkit.chart import worker
from toolkit.native import frames, relayed
from toolkit.native.serve import private_pipes, serve


def call(op: str, payload: bytes) -> bytes:
    """Run one operation; raise what it raises."""
    requests, answers = _pipes()
    requests.write(frames.encode_request(op, payload) + payload)
    requests.flush()
    status, size = frames.ANSWER.unpack(answers.read(frames.ANSWER.size))
    body = answers.read(size)
    if status != frames.Status.OK:
        raise relayed.decode_error(body)
    return body


@cache
def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.chartworker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def end() -> None:
        with process:  # closes its pipes, and waits until it has ended
            pass

    atexit.register(end)
    return process.stdin, process.stdout


if __name__ == "__main__":
    serve(worker.operations(), *private_pipes())
