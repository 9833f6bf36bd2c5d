"""Our manifests in the repository of a cluster are applied as they are, whatever it substitutes."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cli.installing import components, manifests
from toolkit.native import calls
from toolkit.native.pool import WorkerPool
from toolkit.render import substitute

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[WorkerPool]:
    opened = calls.start(size=1)
    yield opened
    await opened.close()


@pytest.mark.parametrize("component", ["", *sorted(components.NAMES)])
async def test_no_object_holds_a_variable_to_substitute(pool: WorkerPool, component: str) -> None:
    choice = manifests.Choice(components=(component,) if component else ())
    objects = await manifests.build(choice)

    found = await substitute.substitute(
        pool, objects, {"cluster": "prod"}, strict=True, always=True, timeout=60, flow="team"
    )

    assert found == objects
