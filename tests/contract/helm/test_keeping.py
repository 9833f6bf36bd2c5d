"""A release cannot delete what its HelmRelease keeps, whatever its chart and hooks say."""

import asyncio
import functools
import json

import pytest

from tests.contract.helm.world import World, hook, statuses
from tests.tools.administrator import RefusedError
from tests.tools.waiting import until
from tests.tools.widgets import definition
from toolkit.apply import retention
from toolkit.apply.retention import DEFINITION, Retention
from toolkit.helm.keeping import Keeping
from toolkit.objects import GroupVersionKind, Json, ObjectRef

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


def group(world: World) -> str:
    """Return an API group of the test's own."""
    return f"{world.namespace}.example"


def keeping(world: World) -> tuple[World, list[ObjectRef]]:
    """Return the world with the identity of the controller, and what was kept."""
    kept: list[ObjectRef] = []
    keeps = Retention(namespaces=frozenset({world.namespace}), groups=frozenset({group(world)}))
    in_use = functools.partial(retention.in_use, world.api)
    return world.with_(acting=Keeping(world.api, keeps, kept.append, in_use=in_use)), kept


def own(world: World) -> ObjectRef:
    """Return the test's Namespace."""
    return ObjectRef(GroupVersionKind("", "v1", "Namespace"), "", world.namespace)


async def test_uninstallation_keeps_the_namespace(world: World) -> None:
    acted, kept = keeping(world)
    chart = world.chart(templates__namespace_yaml=namespace(world))
    await acted.run("install", chart, takeOwnership=True)

    gone = await acted.run("uninstall")

    assert statuses(gone) == [(1, "uninstalled")]
    assert kept == [own(world)]
    assert world.config_map() is None
    there(world)


async def test_upgrade_that_drops_the_namespace_keeps_it(world: World) -> None:
    acted, kept = keeping(world)
    chart = world.chart(templates__namespace_yaml=namespace(world))
    await acted.run("install", chart, takeOwnership=True)

    done = await acted.run("upgrade", world.chart("2.0.0"))

    assert statuses(done)[0] == (2, "deployed")
    assert kept == [own(world)]
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

    assert set(kept) == {own(world)}


async def test_upgrade_and_uninstallation_keep_a_definition_in_use(world: World) -> None:
    """The object is of somebody else: it comes from no chart."""
    acted, kept = keeping(world)
    defined = json.dumps(definition(group(world)))
    await acted.run("install", world.chart(templates__widgets_yaml=defined))
    place = f"/apis/{group(world)}/v1/namespaces/{world.namespace}/widgets"
    widget = {"apiVersion": f"{group(world)}/v1", "kind": "Widget", "metadata": {"name": "one"}}
    await until(lambda: asyncio.to_thread(_created, world, place, widget))

    await acted.run("upgrade", world.chart("2.0.0"))
    await acted.run("upgrade", world.chart("3.0.0", templates__widgets_yaml=defined))
    await acted.run("uninstall")

    assert kept == [ObjectRef(DEFINITION, "", f"widgets.{group(world)}")] * 2
    assert len(world.administrator.send("GET", place)["items"]) == 1
    world.administrator.send("DELETE", f"{place}/one")
    await acted.run("install", world.chart(templates__widgets_yaml=defined), takeOwnership=True)
    await acted.run("uninstall")
    assert len(kept) == 2


def _created(world: World, place: str, obj: Json) -> bool:
    """Create the object, as soon as its kind is served."""
    try:
        world.administrator.send("POST", place, obj)
    except RefusedError:
        return False
    return True
