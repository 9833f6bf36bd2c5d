"""Kinds of an aggregated API server that is down for a while: nothing is taken to be gone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.contract.helm.world import World
from tests.fakes import aggregated
from tests.fakes.aggregated import Aggregated
from toolkit.apply import prune
from toolkit.apply.ownership import Owner
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, ObjectRef

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def server(world: World, tmp_path: Path) -> AsyncIterator[Aggregated]:
    """Serve Widgets."""
    with aggregated.serving(world.administrator, world.namespace, tmp_path) as running:
        await running.comes()
        yield running


def widget(server: Aggregated) -> str:
    return f"apiVersion: {server.group}/v1\nkind: Widget\nmetadata: {{name: one}}\n"


ASKS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: asks}
data:
  served: {{ .Capabilities.APIVersions.Has "GROUP/v1" | quote }}
"""


async def test_release_with_a_kind_of_a_server_that_is_down_is_neither_deleted_nor_changed(
    world: World, server: Aggregated
) -> None:
    await world.run("install", world.chart(templates__widget_yaml=widget(server)))
    told = f"because its API server does not answer: look at APIService '{server.service}'"

    await server.goes()
    fresh = world.with_(cluster="during")  # a worker that has never seen the kind
    left = await fresh.fails("upgrade", world.chart())
    kept = await fresh.fails("upgrade", world.chart(templates__widget_yaml=widget(server)))
    uninstalled = await fresh.fails("uninstall")
    known = await world.fails("uninstall")  # one that has seen it
    await server.comes()

    for error in (uninstalled, left, kept):
        assert told in str(error)
        assert error.code != "CRDMissing"
    assert "/widgets/one is to be deleted and cannot be read: the server" in str(known)
    assert [path.rpartition("/")[2] for path in server.objects] == ["one"]
    await world.run("uninstall")
    assert server.objects == {}


async def test_templates_see_a_version_of_a_server_that_is_down(
    world: World, server: Aggregated
) -> None:
    chart = world.chart(templates__asks_yaml=ASKS.replace("GROUP", server.group))

    await server.goes()
    during = world.with_(cluster="templates")
    await during.run("install", chart)
    seen = world.config_map("asks")
    await server.comes()
    await during.run("upgrade", chart)
    after = world.config_map("asks")

    assert seen is not None
    assert after is not None
    assert seen["data"] == after["data"] == {"served": "true"}


async def test_object_of_a_server_that_is_down_stays_in_the_inventory(
    world: World, server: Aggregated, control_plane: ControlPlane
) -> None:
    owner = Owner(namespace=world.namespace, name="app")
    obj: Json = {
        "apiVersion": f"{server.group}/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": world.namespace, "labels": owner.labels},
    }
    await world.api.apply(obj, manager="test")
    gvk = GroupVersionKind(server.group, "v1", "Widget")
    listed = (
        ObjectRef(gvk, world.namespace, "one"),
        ObjectRef(GroupVersionKind(server.group, "v1beta1", "Widget"), world.namespace, "one"),
    )

    await server.goes()
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as fresh:
        during = await prune.prune(fresh, listed, owner=owner)
    await server.comes()
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as fresh:
        after = await prune.prune(fresh, listed[:1], owner=owner)

    assert set(during.survivors) == set(listed)
    assert f"look at APIService '{server.service}'" in during.message
    assert after.deleted == listed[:1]
    assert server.objects == {}
