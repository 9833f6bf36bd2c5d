"""Definitions in a chart's crds directory, and namespaces: what is made before the templates."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.contract.helm.world import World, statuses
from tests.tools import namespaces
from tests.tools.waiting import until
from tests.tools.widgets import definition
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

METADATA: Json = {"labels": {"team": "shop"}, "annotations": {"note": "kept"}}


class Widgets:
    """A chart with a definition and an object of its kind."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.group = f"{world.namespace}.example"

    def chart(self, **properties: Json) -> Path:
        widget = {"apiVersion": f"{self.group}/v1", "kind": "Widget", "metadata": {"name": "one"}}
        return self.world.chart(
            crds__widget_yaml=json.dumps(definition(self.group, **properties)),
            templates__widget_yaml=json.dumps(widget),
        )

    @property
    def defined(self) -> Any:
        """Return the definition as it is in the cluster, or nothing."""
        where = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        found = self.world.administrator.send("GET", where)["items"]
        named = [each for each in found if each["metadata"]["name"] == f"widgets.{self.group}"]
        return named[0] if named else None

    @property
    def properties(self) -> set[str]:
        schema = self.defined["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return set(schema["properties"]["spec"].get("properties", {}))


@pytest.fixture
def widgets(world: World) -> Widgets:
    return Widgets(world)


async def test_definitions_are_there_before_objects_of_them(world: World, widgets: Widgets) -> None:
    installed = await world.run("install", widgets.chart(), crds="Create", commonMetadata=METADATA)

    kinds = [each["kind"] for each in installed.objects]
    assert kinds == ["CustomResourceDefinition", "ConfigMap", "Widget"]
    assert "namespace" not in installed.objects[0]["metadata"]
    assert widgets.defined["metadata"]["labels"] == METADATA["labels"]
    assert world.get(f"apis/{widgets.group}/v1 widgets/one")

    await world.run("uninstall")

    assert widgets.defined


async def test_definitions_change_by_policy_alone(world: World, widgets: Widgets) -> None:
    await world.run("install", widgets.chart(), crds="Create")
    more = widgets.chart(size={"type": "string"})

    await world.run("upgrade", more, crds="Skip")
    assert widgets.properties == set()
    await world.run("upgrade", more, crds="Create")
    assert widgets.properties == set()
    await world.run("upgrade", more, crds="CreateReplace")
    assert widgets.properties == {"size"}


async def test_missing_definition_is_told(world: World, widgets: Widgets) -> None:
    error = await world.fails("install", widgets.chart(), crds="Skip")

    assert error.code == "CRDMissing"
    assert "Widget" in str(error)
    assert widgets.defined is None


async def test_upgrade_creates_definitions(world: World, widgets: Widgets) -> None:
    await world.run("install", world.chart())

    await world.run("upgrade", widgets.chart(), crds="Create")

    assert world.get(f"apis/{widgets.group}/v1 widgets/one")


OPTIONAL = """\
apiVersion: v2
name: shop
version: 1.0.0
dependencies:
  - {name: optional, version: 1.0.0, alias: extra, condition: extra.enabled}
"""


@pytest.mark.parametrize("action", ["install", "upgrade"])
@pytest.mark.parametrize("enabled", [True, False])
async def test_definitions_of_disabled_dependencies_are_left_alone(
    world: World,
    widgets: Widgets,
    action: Literal["install", "upgrade"],
    *,
    enabled: bool,
) -> None:
    chart = world.chart(
        Chart_yaml=OPTIONAL,
        values_yaml="colour: red\nextra: {enabled: false}\n",
        charts__optional__Chart_yaml="apiVersion: v2\nname: optional\nversion: 1.0.0\n",
        charts__optional__crds__widget_yaml=json.dumps(definition(widgets.group)),
    )
    if action == "upgrade":
        await world.run("install", world.chart())

    made = await world.run(
        action, chart, values={"extra": {"enabled": enabled}}, crds="CreateReplace"
    )

    assert bool(widgets.defined) is enabled
    kinds = {each["kind"] for each in made.objects}
    assert ("CustomResourceDefinition" in kinds) is enabled


async def test_what_is_no_definition_is_ignored(world: World, widgets: Widgets) -> None:
    world.make("api/v1 configmaps", {"metadata": {"name": "mine"}, "data": {"owner": "admin"}})
    other = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"x": "y"}}
    )
    chart = world.chart(crds__all_yaml=f"{other}\n---\n{json.dumps(definition(widgets.group))}")

    made = await world.run("install", chart, crds="CreateReplace")

    assert widgets.defined
    assert (world.config_map("mine") or {})["data"] == {"owner": "admin"}
    names = [each["metadata"]["name"] for each in made.objects]
    assert names == [f"widgets.{widgets.group}", "app"]


async def undefine(world: World, widgets: Widgets) -> None:
    """Delete the definition, and wait until its kind is not served."""
    where = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{widgets.group}"
    world.administrator.send("DELETE", where, body={})
    await until(lambda: widgets.defined is None and not served(world, widgets.group))


def served(world: World, group: str) -> bool:
    groups = world.administrator.send("GET", "/apis")["groups"]
    return any(each["name"] == group for each in groups)


async def test_objects_whose_definition_is_gone_hold_nothing_up(
    world: World, widgets: Widgets
) -> None:
    await world.run("install", widgets.chart(), crds="Create")
    await undefine(world, widgets)
    later = world.with_(cluster="without the definition")

    failed = await later.fails("upgrade", widgets.chart(), crds="Skip")
    await later.run("upgrade", world.chart("1.1.0"))
    back = await later.fails("rollback", version=1)
    await later.run("rollback", version=2)
    gone = await later.run("uninstall")

    assert failed.code == back.code == "CRDMissing"
    assert "Widget" in str(failed)
    assert gone.records[0].info.status == "uninstalled"
    assert world.config_map() is None
    assert await world.history() == []


async def test_release_of_objects_that_are_all_gone_is_uninstalled(
    world: World, widgets: Widgets
) -> None:
    widget = {"apiVersion": f"{widgets.group}/v1", "kind": "Widget", "metadata": {"name": "one"}}
    chart = world.chart(
        crds__widget_yaml=json.dumps(definition(widgets.group)),
        templates__configmap_yaml=json.dumps(widget),
    )
    await world.run("install", chart, crds="Create")
    await undefine(world, widgets)

    await world.with_(cluster="without the definition").run("uninstall")

    assert await world.history() == []


async def test_object_that_is_served_in_another_version_is_deleted(
    world: World, widgets: Widgets
) -> None:
    await world.run("install", widgets.chart(), crds="Create")
    where = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{widgets.group}"
    version = widgets.defined["spec"]["versions"][0]
    versions = [{**version, "served": False}, {**version, "name": "v2", "storage": False}]
    content = "application/merge-patch+json"
    world.administrator.send("PATCH", where, {"spec": {"versions": versions}}, content=content)
    await until(lambda: group_versions(world, widgets.group) == ["v2"])

    await world.with_(cluster="with the other version").run("uninstall")

    assert world.get(f"apis/{widgets.group}/v2 widgets/one") is None
    assert await world.history() == []


def group_versions(world: World, group: str) -> list[str]:
    groups = world.administrator.send("GET", "/apis")["groups"]
    return [
        version["version"]
        for each in groups
        if each["name"] == group
        for version in each["versions"]
    ]


async def test_namespace_is_made_if_wanted(world: World) -> None:
    namespace = namespaces.unused()
    there = world.with_(namespace=namespace, storage_namespace=world.namespace)
    assert (await there.fails("install", there.chart())).outcome.records[0].info.status == "failed"

    await there.run("install", there.chart(), createNamespace=True, replace=True)

    assert there.colour() == "red"
    assert statuses(await there.run("uninstall")) == [(2, "uninstalled")]
    assert there.administrator.send("GET", f"/api/v1/namespaces/{namespace}")
