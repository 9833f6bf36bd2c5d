"""A registry with images, and the plugins that look at them."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes import imagescene
from tests.fakes.imagescene import ImageScene
from tests.fakes.registry import FakeRegistry


@pytest.fixture
async def scene() -> AsyncIterator[ImageScene]:
    async with FakeRegistry() as registry, imagescene.running(registry) as running:
        yield running
