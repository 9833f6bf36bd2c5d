"""Before a move, the charts of current releases are read from the records of Helm."""

import json
from typing import Any

import pytest

from cli.check.subjects import Subject
from cli.migrating import releases
from tests.contract.helm.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMMON = "https://schemas.example.org/common/values.schema.json"


def release(world: World, *history: dict[str, Any], namespace: str = "") -> Subject:
    return Subject(
        obj={
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": "app", "namespace": "shop"},
            "status": {
                "history": list(history),
                "storageNamespace": namespace or world.namespace,
            },
        }
    )


async def test_released_chart_with_a_schema_on_another_host_is_named(world: World) -> None:
    await world.run("install", world.chart(values_schema_json=json.dumps({"$ref": COMMON})))

    read = await releases.read(world.api, [release(world, {"name": "app", "version": 1})])

    (message,) = read.told["HelmRelease/shop/app"]
    assert message.startswith(f"values.schema.json of chart 'shop' refers to '{COMMON}'")
    assert read.unread == ()


async def test_released_chart_whose_schema_is_its_own_is_not_named(world: World) -> None:
    await world.run("install", world.chart(values_schema_json='{"type": "object"}'))
    await world.run("upgrade", world.chart("2.0.0"))

    read = await releases.read(
        world.api,
        [release(world, {"name": "app", "version": number}) for number in (1, 2)],
    )

    assert read == releases.Read()


async def test_record_that_is_gone_or_broken_is_named_as_not_checked(world: World) -> None:
    name = "sh.helm.release.v1.broken.v1"
    world.make("api/v1 secrets", {"metadata": {"name": name}, "stringData": {"release": "%%%"}})

    read = await releases.read(
        world.api,
        [
            release(world, {"name": "gone", "version": 7}),
            release(world, {"name": "broken", "version": 1}),
            release(world),
        ],
    )

    assert read.told == {}
    assert read.unread == ("HelmRelease/shop/app", "HelmRelease/shop/app")
