"""The real signer, and the engine that judges what it makes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools import programs
from toolkit.native import build, calls
from toolkit.native.pool import WorkerPool


@pytest.fixture(scope="session")
def notation_sign_program() -> Path:
    """Build the signer before the first test."""
    return programs.path("notation-sign")


@pytest.fixture(scope="session", autouse=True)
def _engine() -> None:
    build.build()


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    """Run a worker that has the engine."""
    pool = calls.start(size=1)
    yield pool
    await pool.close()
