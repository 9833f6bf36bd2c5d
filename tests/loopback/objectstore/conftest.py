"""Each test of this directory that takes ``store`` runs against S3, Google and Azure."""

from collections.abc import AsyncIterator

import pytest

from toolkit.remote.objectstore.objectstore import ObjectStore, Place


@pytest.fixture
async def store(place: Place) -> AsyncIterator[ObjectStore]:
    async with ObjectStore(place, timeout=30) as opened:
        yield opened
