"""The engine that golden cases go through."""

import pytest

from toolkit.native.pool import WorkerPool


@pytest.fixture
def pool(engine_pool: WorkerPool) -> WorkerPool:
    return engine_pool
