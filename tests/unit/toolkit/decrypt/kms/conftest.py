"""Every key service, for one test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.fakes import keyscene
from tests.fakes.keyscene import Scene


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    """Run the services."""
    async with keyscene.running() as made:
        yield made
