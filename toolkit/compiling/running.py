"""Run a Go build, and say what is left of it while it takes minutes.

The build ends with us, however we end. Go keeps each package that it has compiled, so the next
build goes on where this one was.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from toolkit.compiling import estimate, failures
from toolkit.compiling.estimate import Cost
from toolkit.errors import StalledError

_REDRAW_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 15.0
"""Between two lines where nothing can be redrawn."""


def run(
    command: Sequence[str | Path],
    *,
    directory: Path,
    environment: Mapping[str, str],
    name: str,
    cost: Cost,
) -> None:
    """Run ``go build``; ``name`` is what the user reads.

    Raises:
        StalledError: the build failed; carries a sentence with the remedy.
    """
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(  # noqa: S603  # the toolchain and our own arguments
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        )
        try:
            status = _wait(process, output, _Line(name, cost, started))
        finally:
            _stop(process)
        if status != 0:
            output.seek(0)
            raise StalledError(
                f"cannot build {name}: {failures.explain(output.read())}", reason="BuildFailed"
            )
    say(f"built {name} in {estimate.duration(time.monotonic() - started)}")


class _Line:
    """The line that tells how far a build is: redrawn on a terminal, else now and then."""

    def __init__(self, name: str, cost: Cost, started: float) -> None:
        self._name = name
        self._cost = cost
        self._started = started
        self._interactive = sys.stderr.isatty()
        self._told = started
        if not self._interactive:
            say(self._text(0))

    def update(self, packages: int) -> None:
        if self._interactive:
            _redraw(self._text(packages))
        elif time.monotonic() - self._told >= _LINE_SECONDS:
            self._told = time.monotonic()
            say(self._text(packages))

    def clear(self) -> None:
        if self._interactive:
            _redraw("")

    def _text(self, packages: int) -> str:
        elapsed = time.monotonic() - self._started
        if packages >= self._cost.packages:
            # What the table takes as compiled before was not.
            return f"building {self._name}: {packages} packages, {estimate.duration(elapsed)}"
        left = estimate.remaining(
            self._cost, done=packages, elapsed=elapsed, processors=os.cpu_count() or 1
        )
        return (
            f"building {self._name}: {packages} of about {self._cost.packages} packages,"
            f" {estimate.duration(elapsed)}, about {estimate.duration(left)} left"
        )


def _wait(process: subprocess.Popen[bytes], output: IO[str], line: _Line) -> int:
    try:
        while True:
            try:
                return process.wait(timeout=_REDRAW_SECONDS)
            except subprocess.TimeoutExpired:
                # -v writes a line for each package that is compiled.
                line.update(os.pread(output.fileno(), 1 << 20, 0).count(b"\n"))
    finally:
        line.clear()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill what still runs of the build; a signal that go could handle may be ignored by it."""
    if process.poll() is None:
        # The group holds the compilers too.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def say(line: str) -> None:
    """Print a line of progress to standard error, which is never data."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _redraw(line: str) -> None:
    sys.stderr.write(f"\r\x1b[K{line}")
    sys.stderr.flush()
