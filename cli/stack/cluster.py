"""The cluster to run on: the embedded control plane, or one that exists.

The embedded one is another program (``python -m controlplane``), tied to this process by its
standard input: it ends when that closes, however this process ends.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli import errors
from cli.stack import install

EXISTING: Final = "PENSTOCK_USE_EXISTING_CLUSTER"
"""Names a context of the user's kubeconfig to use instead (see ``controlplane.plane``)."""

_STOP_WITHIN: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The connection to a cluster as administrator; ``directory`` has the state of the stack."""

    kubeconfig: Path
    context: str = ""
    kubectl: str = "kubectl"
    server: str = ""
    directory: Path | None = None


@asynccontextmanager
async def chosen(
    kubeconfig: Path | None, *, context: str, name: str, report: Callable[[str], None]
) -> AsyncIterator[Cluster]:
    """Use the given kubeconfig or the context of the environment, else start a cluster."""
    wanted = context or os.environ.get(EXISTING, "")
    if kubeconfig is not None or wanted:
        yield Cluster(kubeconfig=kubeconfig or _users_kubeconfig(), context=wanted)
        return
    async with embedded(name, report=report) as cluster:
        yield cluster


@asynccontextmanager
async def embedded(name: str, *, report: Callable[[str], None]) -> AsyncIterator[Cluster]:
    """Run an embedded control plane during the block.

    Raises:
        FailedError: it did not start; the message ends with its output.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controlplane", "up", "--until-eof"),
        *("--name", name, "--output", "json"),
        env={**os.environ, "PYTHONPATH": search_path()},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    last: deque[str] = deque(maxlen=5)
    listening = asyncio.create_task(_listen(process, last, report))
    try:
        assert process.stdout is not None  # noqa: S101 -- opened as a pipe above
        line = await process.stdout.readline()
        if not line:
            await listening
            raise errors.FailedError("the control plane did not start:\n" + "\n".join(last))
        yield _parse(json.loads(line))
    finally:
        await asyncio.shield(_stop(process))
        await listening


async def _stop(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None  # noqa: S101 -- opened as a pipe above
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_WITHIN)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


async def _listen(
    process: asyncio.subprocess.Process, last: deque[str], report: Callable[[str], None]
) -> None:
    assert process.stderr is not None  # noqa: S101 -- opened as a pipe above
    async for line in process.stderr:
        text = line.decode(errors="replace").rstrip()
        last.append(text)
        report(text)


def _parse(access: dict[str, str]) -> Cluster:
    return Cluster(
        kubeconfig=Path(access["kubeconfig"]),
        kubectl=access["kubectl"],
        server=access["server"],
        directory=Path(access["directory"]),
    )


def _users_kubeconfig() -> Path:
    paths = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(paths[0]) if paths else Path.home() / ".kube" / "config"


def search_path() -> str:
    """Return PYTHONPATH for our programs, for any working directory."""
    return os.pathsep.join(filter(None, (str(install.ROOT), os.environ.get("PYTHONPATH"))))
