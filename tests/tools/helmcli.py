"""The real Helm, run in a home of its own."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

Helm = Callable[..., str]
"""Takes Helm's arguments and returns what it prints."""


def at(program: Path, home: Path) -> Helm:
    """Return a function that runs Helm."""
    names = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME")
    environment = {name: str(home / name.lower()) for name in names} | {"PATH": os.environ["PATH"]}

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(
            [program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


async def beside(helm: Helm, *arguments: str | Path) -> str:
    """Run Helm while this loop goes on serving it."""
    return await asyncio.to_thread(helm, *arguments)
