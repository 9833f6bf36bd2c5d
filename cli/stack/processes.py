"""One supervised process: started, watched, started again with back-off, stopped for good.

A process that ends is started again, and so is one that hangs: it is asked whether it is alive
(``cli.stack.liveness``), and killed if it is not.

Each process leads a process group of its own, so that Ctrl-C in the terminal reaches only the
supervisor (which stops them in order) and a stop leaves nothing of the group behind. The launcher
asks the kernel to end the process when its supervisor dies (``cli.stack.launch``), therefore even
``kill -9`` of the supervisor leaves no process.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from cli import errors
from cli.stack import liveness
from cli.stack.probing import Probe

FIRST_DELAY: Final = 0.25
LONGEST_DELAY: Final = 15.0
STEADY: Final = 10.0
"""Seconds that a process must have lived for its next crash to be the first again."""

_TRIALS: Final = 3
"""Starts after which a process that was never ready is given up."""

_USAGE: Final = 2
"""Exit code of a process whose arguments are wrong (argparse): another start ends alike."""

_LAUNCHER: Final = Path(__file__).with_name("launch.py")

GRACE: Final = 15.0
"""Seconds between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """The command line of one process, and the URL of its health endpoints."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    health: str
    """Base URL of the health endpoints; without one there are no liveness probes."""
    probe: Probe = field(default_factory=Probe)


class SupervisedProcess:
    """Keeps one process running from ``run`` until ``stop``."""

    def __init__(self, spec: ProcessSpec, *, report: Callable[[str], None]) -> None:
        self.spec = spec
        self.starts = 0
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._refused = False
        self._was_ready = False

    @property
    def pid(self) -> int | None:
        """The process id, or ``None`` between two lives."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def run(self) -> None:
        """Start the process, and again whenever it ends, until ``stop`` or cancellation.

        One that takes its flags for wrong is not started again.
        """
        delay = FIRST_DELAY
        clock = asyncio.get_running_loop().time
        try:
            while not self._stopping.is_set():
                born = clock()
                code = await self._live_once()
                self._refused = code == _USAGE and not self._was_ready
                if self._stopping.is_set() or self._refused:
                    return
                delay = FIRST_DELAY if clock() - born >= STEADY else min(delay, LONGEST_DELAY)
                self._report(f"{self.spec.name} {_fate(code)}, starting it again in {delay:.2g}s")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), delay)
                delay *= 2
        finally:
            self._sweep()

    async def _live_once(self) -> int:
        theirs, ours = os.pipe()
        try:
            with self.spec.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(_LAUNCHER), str(theirs)),
                    *self.spec.argv,
                    env=dict(self.spec.env),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs,),
                    start_new_session=True,
                )
            self.starts += 1
            return await self._end_of(self._process)
        finally:
            os.close(theirs)
            # Last, because this ends the process if it still runs (see ``cli.stack.launch``).
            os.close(ours)

    async def _end_of(self, process: asyncio.subprocess.Process) -> int:
        """Wait until the process ends; end it if it hangs."""
        asking = asyncio.create_task(self._end_if_hung()) if self.spec.health else None
        try:
            return await process.wait()
        finally:
            if asking is not None:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    async def _end_if_hung(self) -> None:
        why = await liveness.hung(self.spec.health, self.spec.probe)
        if not self._stopping.is_set():
            self._report(f"{self.spec.name} {why}, ending it")
            # A process that hangs does not handle SIGTERM.
            self.kill(signal.SIGKILL)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process, not to its group; the supervisor continues."""
        pid = self.pid
        if pid is not None:
            # Not through ``Process``: that polls, and then asyncio finds no child to wait for.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    async def stop(self, *, grace: float = GRACE) -> None:
        """Ask the process to end, insist after ``grace`` seconds, and do not start it again."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        self.kill(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), grace)
        except TimeoutError:
            self._report(f"{self.spec.name} did not stop within {grace:.0f}s, killing it")
            self._sweep()
            await process.wait()

    def _sweep(self) -> None:
        """End the rest of the process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def wait_ready(self, session: aiohttp.ClientSession) -> None:
        """Return once ``/readyz`` answers 200. The caller sets the deadline.

        Raises:
            FailedError: the process takes its flags for wrong, or ends again and again; the
                message ends with its log.
        """
        before = self.starts
        while self.starts - before < _TRIALS:
            if self._refused:
                raise errors.FailedError(f"{self.spec.name}: {last_lines(self.spec.log, 1)}")
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(
                    f"{self.spec.health}/readyz", timeout=aiohttp.ClientTimeout(total=2)
                ) as response:
                    if response.status == 200:
                        self._was_ready = True
                        return
            await asyncio.sleep(0.05)
        raise errors.FailedError(
            f"{self.spec.name} ends as soon as it is started; the end of {self.spec.log}:\n"
            f"{last_lines(self.spec.log)}"
        )


def last_lines(log: Path, count: int = 5) -> str:
    """Return the last lines of a log file, which show why a process failed."""
    with contextlib.suppress(FileNotFoundError):
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - 8192))
            lines: Sequence[str] = stream.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-count:])
    return ""


def _fate(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
