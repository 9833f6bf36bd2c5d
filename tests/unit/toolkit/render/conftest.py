"""A pool with the engine for tests of what is built on it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from toolkit.native import build, calls
from toolkit.native.pool import WorkerPool

WriteTree = Callable[..., Path]


@pytest.fixture(scope="session")
def engine_library() -> Path:
    """Build the engine unless that has been done."""
    return build.build()


@pytest.fixture
async def pool(engine_library: Path, tmp_path: Path) -> AsyncIterator[WorkerPool]:  # noqa: ARG001  # it must exist
    """Return a pool of one worker."""
    pool = calls.start(size=1, reads=(tmp_path,))
    yield pool
    await pool.close()


@pytest.fixture
def write_tree(tmp_path: Path) -> WriteTree:
    """Return a function that writes files below a new directory."""

    def write(files: dict[str, str], *, name: str = "source") -> Path:
        root = tmp_path / name
        root.mkdir()
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    return write
