"""A release cannot delete the namespace of its HelmRelease, whatever its chart and hooks say."""

import json

import pytest

from tests.contract.helm.world import World, hook, statuses
from tests.tools.administrator import RefusedError
from toolkit.helm.keeping import Keeping
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


def namespace(world: World) -> str:
    """Return the template of the test's Namespace."""
    return json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}}
    )


def there(world: World) -> Json:
    """Return the Namespace, which must not be on its way out."""
    try:
        found = world.administrator.send("GET", f"/api/v1/namespaces/{world.namespace}")
    except RefusedError as exc:
        raise AssertionError("the namespace is gone") from exc
    assert "deletionTimestamp" not in found["metadata"]
    return found


def keeping(world: World) -> tuple[World, list[str]]:
    """Return the world with the identity of the controller, and what was kept."""
    kept: list[str] = []
    acting = Keeping(world.api, frozenset({world.namespace}), kept.append)
    return world.with_(acting=acting), kept


async def test_uninstallation_keeps_the_namespace(world: World) -> None:
    acted, kept = keeping(world)
    chart = world.chart(templates__namespace_yaml=namespace(world))
    await acted.run("install", chart, takeOwnership=True)

    gone = await acted.run("uninstall")

    assert statuses(gone) == [(1, "uninstalled")]
    assert kept == [world.namespace]
    assert world.config_map() is None
    there(world)


async def test_upgrade_that_drops_the_namespace_keeps_it(world: World) -> None:
    acted, kept = keeping(world)
    chart = world.chart(templates__namespace_yaml=namespace(world))
    await acted.run("install", chart, takeOwnership=True)

    done = await acted.run("upgrade", world.chart("2.0.0"))

    assert statuses(done)[0] == (2, "deployed")
    assert kept == [world.namespace]
    there(world)


@pytest.mark.parametrize("policy", ["", "before-hook-creation", "hook-succeeded"])
async def test_hook_that_deletes_the_namespace_does_not(world: World, policy: str) -> None:
    acted, kept = keeping(world)
    text = json.loads(hook(world.namespace, "pre-install", policy=policy))
    template = json.dumps(text | {"apiVersion": "v1", "kind": "Namespace"})

    try:
        await acted.run("install", world.chart(templates__hook_yaml=template))
    finally:
        there(world)

    assert set(kept) == {world.namespace}
