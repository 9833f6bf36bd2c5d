"""Chart repositories and registries on loopback, and sources that ask them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.chartrepository import ChartRepository
from tests.fakes.chartscene import World
from tests.fakes.registry import FakeRegistry
from toolkit.remote.http.http import Http


@pytest.fixture
async def server() -> AsyncIterator[ChartRepository]:
    async with ChartRepository() as running:
        yield running


@pytest.fixture
async def elsewhere() -> AsyncIterator[ChartRepository]:
    """Run a server that is another origin."""
    async with ChartRepository() as running:
        yield running


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as running:
        yield running


@pytest.fixture
def world(http: Http, tmp_path: Path) -> World:
    return World(http, tmp_path)
