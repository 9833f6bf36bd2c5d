"""The ``penstock`` command without a process for each run: that takes seconds to start."""

import asyncio
import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

from cli.__main__ import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended, and what it said."""

    code: int
    out: str
    err: str


async def penstock(kubeconfig: Path, *arguments: str) -> Ended:
    """Run the command in a thread; one at a time, because both streams are everybody's."""
    return await asyncio.to_thread(_run, (*arguments, "--kubeconfig", str(kubeconfig)))


async def alone(*arguments: str) -> Ended:
    """Run a command that asks no cluster, as ``penstock`` does."""
    return await asyncio.to_thread(_run, arguments)


def _run(arguments: tuple[str, ...]) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return Ended(code, out.getvalue(), err.getvalue())
