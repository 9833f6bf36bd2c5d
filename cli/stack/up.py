"""Everything on this machine, until a signal: what ``penstock up`` runs, in this process or apart.

Detached means: the same command in a session of its own, whose progress is read from its log until
it says in its record that it is ready.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cli import errors
from cli.stack import cluster, install, stack, state

_REFRESH: Final = 1.0
_LOOK: Final = 0.1
_STOP_WITHIN: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run, where; ``kubeconfig`` of ``None`` means the embedded control plane."""

    directory: Path
    kubeconfig: Path | None = None
    context: str = ""
    name: str = "default"
    options: stack.Options = field(default_factory=stack.Options)


async def run(settings: Settings, *, ready: Callable[[cluster.Cluster], None]) -> None:
    """Run until SIGINT or SIGTERM; ``ready`` is called once everything is up."""
    task = asyncio.ensure_future(_run(settings, ready))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _run(settings: Settings, ready: Callable[[cluster.Cluster], None]) -> None:
    directory, options = settings.directory, settings.options
    with state.exclusive(directory):
        _record(settings, phase="starting")
        try:
            async with (
                cluster.chosen(
                    settings.kubeconfig,
                    context=settings.context,
                    name=settings.name,
                    report=options.report,
                ) as chosen,
                stack.start(chosen.kubeconfig, state=directory, options=options) as running,
            ):
                ready(chosen)
                await _keep_record(settings, running, chosen)
        finally:
            state.clear(directory)
            stack.forget(directory)


async def _keep_record(settings: Settings, running: stack.Stack, chosen: cluster.Cluster) -> None:
    """Write down which processes run, whenever that changes."""
    written: dict[str, int] | None = None
    while True:
        pids = running.pids()
        if pids != written:
            _record(settings, phase="ready", kubeconfig=chosen.kubeconfig, pids=pids)
            written = pids
        await asyncio.sleep(_REFRESH)


def _record(
    settings: Settings,
    *,
    phase: str,
    kubeconfig: Path | None = None,
    pids: dict[str, int] | None = None,
) -> None:
    state.write(
        settings.directory,
        state.Record(
            pid=os.getpid(),
            kubeconfig=str(kubeconfig or settings.kubeconfig or ""),
            namespace=settings.options.namespace,
            phase=phase,
            processes=pids or {},
        ),
    )


def detach(arguments: Sequence[str], directory: Path, *, report: Callable[[str], None]) -> None:
    """Start ``penstock up`` with these arguments apart from us, and wait until it is ready.

    Raises:
        UsageError: something runs in the directory already.
        FailedError: it ended before it was ready; the message names its log.
    """
    with state.exclusive(directory):
        log = directory / "up.log"
        log.unlink(missing_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 -- ourselves
            [sys.executable, "-m", "cli", "up", *arguments],
            env={**os.environ, "PYTHONPATH": cluster.search_path()},
            cwd=install.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_ready(process, directory, log, report)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _wait_ready(
    process: "subprocess.Popen[bytes]",
    directory: Path,
    log: Path,
    report: Callable[[str], None],
) -> None:
    with log.open(errors="replace") as output:
        while True:
            record = state.running(directory)
            ended = process.poll() is not None
            for line in output.read().splitlines():
                report(line)
            if ended:
                raise errors.FailedError(
                    f"`penstock up` ended with code {process.returncode}; its log is {log}"
                )
            if record is not None and record.phase == "ready":
                return
            time.sleep(_LOOK)


def down(directory: Path) -> bool:
    """Stop what runs in the directory; tell whether anything did.

    Raises:
        DeadlineError: it did not end.
    """
    record = state.running(directory)
    if record is None:
        return False
    try:
        handle = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return False
    try:
        # Asked again now that the handle pins the process: the id cannot pass on any more.
        if state.running(directory) is None:
            return False
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not _released(directory):
            # Its processes and its control plane end with it, the kernel sees to that.
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not _released(directory):
                raise errors.DeadlineError(f"process {record.pid} does not end")
    finally:
        os.close(handle)
    return True


def _released(directory: Path) -> bool:
    deadline = time.monotonic() + _STOP_WITHIN
    while state.is_locked(directory):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True
