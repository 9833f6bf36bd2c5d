"""The real helm, on its own, and a chart repository that it and we ask."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.fakes.chartrepository import ChartRepository
from tests.tools import programs

Helm = Callable[..., str]


@pytest.fixture(scope="session")
def helm_program() -> Path:
    return programs.path("helm")


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    """Run helm with a home of its own and return what it prints."""
    home = tmp_path / "helm-home"
    names = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME")
    environment = {name: str(home / name.lower()) for name in names} | {"PATH": os.environ["PATH"]}

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(
            [helm_program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
async def server() -> AsyncIterator[ChartRepository]:
    async with ChartRepository() as running:
        yield running


async def beside(helm: Helm, *arguments: str | Path) -> str:
    """Run helm while this loop goes on serving it."""
    return await asyncio.to_thread(helm, *arguments)
