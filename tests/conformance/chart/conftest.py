"""A chart repository that the real Helm and we ask."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.chartrepository import ChartRepository


@pytest.fixture
async def server() -> AsyncIterator[ChartRepository]:
    async with ChartRepository() as running:
        yield running
