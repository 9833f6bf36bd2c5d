"""``penstock up``: run the stack until a signal, in this process or a detached one.

Detached means: the same command in a new session. Its progress is read from its log until its
record says that it is ready.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from cli import errors, sole
from cli.stack import cluster, install, stack, state
from toolkit.kube import client, config

_REFRESH: Final = 1.0
_LOOK: Final = 0.1
_STOP_WITHIN: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options; ``kubeconfig`` of None means the embedded control plane."""

    directory: Path
    kubeconfig: Path | None = None
    context: str = ""
    name: str = "default"
    options: stack.Options = field(default_factory=stack.Options)


class Require(Protocol):
    """Refuses a cluster in which something else reconciles the same objects."""

    async def __call__(
        self,
        api: client.Client,
        *,
        embedded: bool,
        gate: bool,
        mine: str,
        report: Callable[[str], None],
    ) -> None:
        """Raise the refusal."""


Ready = Callable[[cluster.Cluster, Mapping[str, str]], None]
"""Is called with the cluster and the addresses of what is served in it."""


async def run(settings: Settings, *, require_free: Require, ready: Ready) -> None:
    """Run until SIGINT or SIGTERM; ``ready`` is called once everything is up."""
    await interruptible(_run(settings, require_free, ready))


async def interruptible(work: Coroutine[Any, Any, None]) -> bool:
    """Run ``work``, cancelled in order by SIGINT, SIGTERM, SIGHUP; tell whether one came."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


async def _run(settings: Settings, require_free: Require, ready: Ready) -> None:
    directory, options = settings.directory, settings.options
    with state.exclusive(directory), state.named(settings.name, directory):
        record(settings, phase="starting")
        try:
            async with (
                cluster.chosen(
                    settings.kubeconfig,
                    context=settings.context,
                    name=settings.name,
                    report=options.report,
                ) as chosen,
                _running(settings, require_free, chosen) as running,
                _claimed(settings, running),
            ):
                ready(chosen, running.addresses())
                await keep_record(settings, running, chosen)
        finally:
            state.clear(directory)
            stack.forget(directory)


@asynccontextmanager
async def _running(
    settings: Settings, require_free: Require, chosen: cluster.Cluster
) -> AsyncIterator[stack.Stack]:
    options = replace(settings.options, context=chosen.context)
    admin = config.from_environment(str(chosen.kubeconfig), context=chosen.context)
    async with client.Client.open(admin) as api:
        await require_free(
            api,
            embedded=chosen.directory is not None,
            gate=options.components == stack.EVERYTHING,
            mine=sole.identity(settings.directory),
            report=options.report,
        )
    async with stack.start(chosen.kubeconfig, state=settings.directory, options=options) as running:
        yield running


@asynccontextmanager
async def _claimed(settings: Settings, running: stack.Stack) -> AsyncIterator[None]:
    """Tell others in the cluster, for the time of the block, that this ``up`` runs."""
    keeper = running.layout.kubeconfig(install.KEEPER)
    async with client.Client.open(config.from_environment(str(keeper))) as api:
        mine = sole.identity(settings.directory)
        async with sole.held(api, settings.options.namespace, mine=mine):
            yield


async def keep_record(settings: Settings, running: stack.Stack, chosen: cluster.Cluster) -> None:
    """Write down which processes run, whenever that changes."""
    written: dict[str, int] | None = None
    while True:
        pids = running.pids()
        if pids != written:
            record(
                settings,
                phase="ready",
                kubeconfig=chosen.kubeconfig,
                pids=pids,
                addresses=running.addresses(),
            )
            written = pids
        await asyncio.sleep(_REFRESH)


def record(
    settings: Settings,
    *,
    phase: str,
    kubeconfig: Path | None = None,
    pids: dict[str, int] | None = None,
    addresses: dict[str, str] | None = None,
) -> None:
    """Write the record for ``penstock status`` and ``down``."""
    state.write(
        settings.directory,
        state.Record(
            pid=os.getpid(),
            kubeconfig=str(kubeconfig or settings.kubeconfig or ""),
            namespace=settings.options.namespace,
            phase=phase,
            name=settings.name,
            processes=pids or {},
            addresses=addresses or {},
        ),
    )


def detach(command: Sequence[str], directory: Path, *, report: Callable[[str], None]) -> None:
    """Start ``python COMMAND`` detached, and wait until its record says that it is ready.

    Raises:
        UsageError: a stack runs in the directory already.
        FailedError: it ended before it was ready; the message names its log.
    """
    with state.exclusive(directory):
        log = directory / "up.log"
        log.unlink(missing_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 -- ourselves
            [sys.executable, *command],
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
                    f"it ended with code {process.returncode} before it was ready; its log is {log}"
                )
            if record is not None and record.phase == "ready":
                return
            time.sleep(_LOOK)


def down(directory: Path) -> bool:
    """Stop the stack in the directory; return whether there was one.

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
        # Check again now that the handle pins the process: its id cannot be reused any more.
        if state.running(directory) is None:
            return False
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not _ended(handle):
            # Its processes and its control plane end with it, the kernel sees to that.
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not _ended(handle):
                raise errors.DeadlineError(f"process {record.pid} does not end")
    finally:
        os.close(handle)
    return True


def _ended(handle: int) -> bool:
    """Wait until the process is over; its locks are released a moment before that."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(_STOP_WITHIN * 1000))
