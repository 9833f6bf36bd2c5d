"""A run of the clouds for one test, and a way in to them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest_asyncio

from tests.fakes.clouds import ISSUER, FakeClouds, MakeCloud
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Http


@pytest_asyncio.fixture
async def clouds() -> AsyncIterator[FakeClouds]:
    """Run the clouds, which know our issuer."""
    made = FakeClouds()
    made.believe(ISSUER)
    async with made.running():
        yield made


@pytest_asyncio.fixture
async def enter(clouds: FakeClouds) -> AsyncIterator[MakeCloud]:
    """Give a function that makes a way in, for a process with these environment variables."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(Http())

        def make(**environment: str) -> Cloud:
            node = {
                "AWS_EC2_METADATA_SERVICE_ENDPOINT": clouds.node,
                "AZURE_POD_IDENTITY_AUTHORITY_HOST": clouds.node,
                "GCE_METADATA_HOST": clouds.node.removeprefix("http://"),
            }
            return Cloud(
                http, cache=TokenCache(), environment={**node, **environment}, trust=clouds.trust
            )

        yield make
