"""The engine for tests of its bindings."""

from pathlib import Path

import pytest

from toolkit.native import build


@pytest.fixture(scope="session")
def engine_library() -> Path:
    """Build the engine unless that has been done."""
    return build.build()
