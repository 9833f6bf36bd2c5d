"""The life of a release: installed, upgraded, rolled back, uninstalled, and its records."""

import pytest

from tests.contract.helm.world import World, statuses
from toolkit.release import record

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_release_lives_and_goes(world: World) -> None:
    installed = await world.run("install", world.chart(), values={"colour": "blue"})

    assert statuses(installed) == [(1, "deployed")]
    assert world.colour() == "blue"
    assert [each["metadata"]["namespace"] for each in installed.objects] == [world.namespace]
    assert installed.records[0].values == {"colour": "blue"}

    upgraded = await world.run("upgrade", world.chart("1.1.0"), values={"colour": "green"})

    assert statuses(upgraded) == [(2, "deployed"), (1, "superseded")]
    assert world.colour() == "green"

    back = await world.run("rollback", version=1)

    assert statuses(back) == [(3, "deployed"), (2, "superseded")]
    assert world.colour() == "blue"
    assert await world.history() == [(3, "deployed"), (2, "superseded"), (1, "superseded")]

    gone = await world.run("uninstall")

    assert statuses(gone) == [(3, "uninstalled")]
    assert world.config_map() is None
    assert await world.history() == []


async def test_records_have_the_digest_of_what_is_stored(world: World) -> None:
    installed = await world.run("install", world.chart(), values={"colour": "<blue>"})

    (stored,) = (await world.run("history")).records

    assert record.digest_of(stored) == record.digest_of(installed.records[0])
