"""Definitions in a chart's crds directory, and namespaces: what is made before the templates."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.helm.world import World, statuses
from tests.tools import namespaces
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

METADATA: Json = {"labels": {"team": "shop"}, "annotations": {"note": "kept"}}


def definition(group: str, **properties: Json) -> str:
    """Return the definition of Widgets, of a group of the test's own."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    return json.dumps(body)


class Widgets:
    """A chart with a definition and an object of its kind."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.group = f"{world.namespace}.example"

    def chart(self, **properties: Json) -> Path:
        widget = {"apiVersion": f"{self.group}/v1", "kind": "Widget", "metadata": {"name": "one"}}
        return self.world.chart(
            crds__widget_yaml=definition(self.group, **properties),
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


async def test_namespace_is_made_if_wanted(world: World) -> None:
    namespace = namespaces.unused()
    there = world.with_(namespace=namespace, storage_namespace=world.namespace)
    assert (await there.fails("install", there.chart())).outcome.records[0].info.status == "failed"

    await there.run("install", there.chart(), createNamespace=True, replace=True)

    assert there.colour() == "red"
    assert statuses(await there.run("uninstall")) == [(2, "uninstalled")]
    assert there.administrator.send("GET", f"/api/v1/namespaces/{namespace}")
