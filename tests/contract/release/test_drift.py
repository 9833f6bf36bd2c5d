"""Drift of a release on a real API server, with a stand-in for the engine's worker alone."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllers.applying.clusters import Clusters
from controlplane.plane import ControlPlane
from tests.fakes.evaluating import NoEvaluator
from tests.fakes.helmworld import World
from tests.tools.waiting import until
from toolkit.apply.live import LiveSet
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, Json

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def route(method: str, obj: Json) -> tuple[str, dict[str, str]]:
    """Return where Helm sends a ConfigMap, and how."""
    meta = obj["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/configmaps/{meta['name']}"
    if method == "DELETE":
        return path, {"Content-Type": "application/json"}
    return f"{path}?fieldManager=helm-controller&force=true", APPLY


class RealWorld(World):
    """Passes over a HelmRelease whose objects live on a real API server."""

    def make_clusters(self, enqueue: Any) -> Any:
        unused: Any = None
        remotes = RemoteClients(self.api, cloud=unused, tokens=unused)
        return Clusters(
            self.api,
            remotes,
            enqueue,
            group="helm.toolkit.fluxcd.io",
            manager="helm-controller",
            evaluates=NoEvaluator(),
        )

    async def settled(self, *triggers: str) -> None:
        """Run passes until one ends with Ready=True."""
        await self.ready(*triggers)
        async with asyncio.timeout(30):
            while self.condition("Ready")[0] != "True":
                await until(lambda: self.woken)
                await self.ready(self.take())

    @property
    def live(self) -> LiveSet:
        """Return what the watches show."""
        live: LiveSet = self.clusters.local.live
        return live

    def take(self) -> str:
        """Return why the release was woken last, and forget it."""
        why = self.woken[-1].partition(" ")[2]
        self.woken.clear()
        return why


async def proven(world: RealWorld) -> None:
    """Wait until the watches have shown all that the release wrote."""
    await until(lambda: world.live.proves(world.key))


async def forge(world: RealWorld) -> None:
    """Apply other values in the name of the controller, in a later second than the release."""
    live = await world.api.get(CONFIG_MAP, "settings", world.key.namespace)
    kept = {name: live["metadata"][name] for name in ("name", "namespace", "labels", "annotations")}
    colors = itertools.count()

    async def forged() -> bool:
        values = {"color": f"red {next(colors)}", "size": "1"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept, "data": values}
        await world.api.apply(body, manager="helm-controller")
        return not world.live.proves(world.key)

    await until(forged)


@pytest.fixture
async def world(
    control_plane: ControlPlane, kubectl: Callable[..., str], namespace: str, tmp_path: Path
) -> AsyncIterator[RealWorld]:
    applier = "--user=system:serviceaccount:penstock-system:helm-applier"
    kubectl("-n", namespace, "create", "rolebinding", "applier", "--clusterrole=admin", applier)
    cluster = config.from_environment(str(control_plane.kubeconfig))
    async with Client.open(cluster) as client:
        world = RealWorld(
            tmp_path,
            namespace=namespace,
            client=client,
            driftDetection={"mode": "enabled"},
            kubeConfig=None,
        )
        world.helm.kinds = (("v1", "ConfigMap", "settings"),)
        world.helm.fields = {"data": {"color": "green", "size": "1"}}
        world.helm.route = route
        follow = asyncio.create_task(world.clusters.run())
        try:
            yield world
        finally:
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)


async def change(world: RealWorld, data: Json, name: str = "settings") -> None:
    """Change the released object, as somebody else would."""
    await world.api.patch(
        CONFIG_MAP,
        name,
        world.key.namespace,
        {"data": data},
        strategy="merge",
        manager="somebody",
    )


async def data(world: RealWorld) -> Json:
    found: Json = (await world.api.get(CONFIG_MAP, "settings", world.key.namespace))["data"]
    return found


async def test_drift_is_noticed_told_and_corrected(world: RealWorld) -> None:
    await world.settled("spec")
    world.events.clear()

    await change(world, {"color": "red"})
    await until(lambda: world.woken)
    assert world.take() == "drift"
    await world.settled("drift")

    assert (await data(world))["color"] == "green"
    assert [event.reason for event in world.events] == ["DriftDetected", "DriftCorrected"]
    name = f"ConfigMap/{world.key.namespace}/settings"
    assert f"{name} changed (0 additions, 1 changes, 0 removals)" in world.events[0].message
    assert f"{name} configured" in world.events[1].message
    assert world.condition("Drifted")[0] == "False"
    assert world.helm.done == ["install"]


async def test_deleted_object_is_created_again(world: RealWorld) -> None:
    await world.settled("spec")

    await world.api.delete(CONFIG_MAP, "settings", world.key.namespace)
    await until(lambda: world.woken)
    await world.settled(world.take())

    assert await data(world) == {"color": "green", "size": "1"}


async def test_drift_is_only_told_where_the_spec_says_so(world: RealWorld) -> None:
    world.spec(driftDetection={"mode": "warn"})
    await world.settled("spec")
    world.events.clear()

    await change(world, {"color": "red"})
    await until(lambda: world.woken)
    await world.settled(world.take())

    assert (await data(world))["color"] == "red"
    assert [event.reason for event in world.events] == ["DriftDetected"]
    assert world.condition("Drifted")[:2] == ("True", "DriftDetected")


async def test_ignored_fields_are_left_alone(world: RealWorld) -> None:
    world.spec(driftDetection={"mode": "enabled", "ignore": [{"paths": ["/data/color"]}]})
    await world.settled("spec")
    world.events.clear()

    await change(world, {"color": "red"})
    await until(lambda: world.woken)
    await world.settled(world.take())

    assert (await data(world))["color"] == "red"
    assert world.events == []


async def test_request_asks_nothing_of_objects_that_the_watches_know(world: RealWorld) -> None:
    await world.settled("spec")
    await proven(world)
    world.helm.orders.clear()

    await world.ready("requested")

    assert world.helm.orders == []


async def test_request_finds_what_was_applied_in_our_name(world: RealWorld) -> None:
    await world.settled("spec")
    await proven(world)
    await forge(world)

    await world.ready("requested")

    assert (await data(world))["color"] == "green"


async def test_other_rules_have_everything_compared_again(world: RealWorld) -> None:
    world.spec(driftDetection={"mode": "enabled", "ignore": [{"paths": ["/data/color"]}]})
    await world.settled("spec")
    await change(world, {"color": "red"})
    await until(lambda: world.woken)
    await world.settled(world.take())

    world.spec(driftDetection={"mode": "enabled", "ignore": []})
    await world.settled("spec")

    assert (await data(world))["color"] == "green"


async def test_process_that_starts_finds_earlier_drift(world: RealWorld) -> None:
    await world.settled("spec")
    world.clusters.forget(world.key)
    await change(world, {"color": "red"})
    world.start()
    world.shows_records()

    await world.settled("start")

    assert (await data(world))["color"] == "green"


async def test_foreign_fields_are_no_drift(world: RealWorld) -> None:
    await world.settled("spec")

    await change(world, {"extra": "x"})
    await change(world, {"color": "red"})
    await until(lambda: world.woken)
    await world.settled(world.take())

    assert await data(world) == {"color": "green", "size": "1", "extra": "x"}


async def corrected(world: RealWorld) -> None:
    """Answer what wakes the release, as its queue does, until drift has been corrected.

    What was changed before a restart may wake it late.
    """

    async def told() -> bool:
        if world.woken:
            await world.settled(world.take())
        return any(event.reason == "DriftCorrected" for event in world.events)

    await until(told)


async def written_client_side(world: RealWorld) -> None:
    """Have Helm write as it did before server-side apply, as it goes on to for such releases."""
    metadata = {"name": "settings", "namespace": world.key.namespace}
    await world.api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": "none"}}
    )
    world.helm.route = patched


def patched(method: str, obj: Json) -> tuple[str, dict[str, str]]:
    """Return where Helm sends a patch to a ConfigMap."""
    path, _ = route(method, obj)
    return path.replace("&force=true", ""), {"Content-Type": "application/merge-patch+json"}


async def operations(world: RealWorld) -> set[str]:
    """Return how the controller owns what it released."""
    found = await world.api.get(CONFIG_MAP, "settings", world.key.namespace)
    entries = found["metadata"]["managedFields"]
    return {each["operation"] for each in entries if each["manager"] == "helm-controller"}


async def test_drift_of_what_was_written_client_side_is_corrected(world: RealWorld) -> None:
    await written_client_side(world)
    await world.settled("spec")
    world.events.clear()

    await change(world, {"color": "red"})
    await corrected(world)

    assert (await data(world))["color"] == "green"
    assert [event.reason for event in world.events] == ["DriftDetected", "DriftCorrected"]


async def test_what_was_written_client_side_is_looked_at_each_interval_where_nothing_is_written(
    world: RealWorld,
) -> None:
    world.spec(driftDetection={"mode": "warn"})
    await written_client_side(world)
    await world.settled("spec")
    world.events.clear()

    await change(world, {"color": "red"})
    await world.settled("interval")

    assert await operations(world) == {"Update"}
    assert [event.reason for event in world.events] == ["DriftDetected"]


async def test_process_that_starts_follows_what_an_earlier_one_released(world: RealWorld) -> None:
    await world.settled("spec")
    async with restarted(world):
        await world.settled("start")
        world.events.clear()

        await change(world, {"color": "red"})
        await corrected(world)

    assert [event.reason for event in world.events] == ["DriftDetected", "DriftCorrected"]


async def test_correction_leaves_nothing_unwatched(world: RealWorld) -> None:
    world.helm.kinds = (("v1", "ConfigMap", "settings"), ("v1", "ConfigMap", "others"))
    await world.settled("spec")
    await change(world, {"color": "red"})
    async with restarted(world):
        await world.settled("start")
        world.events.clear()

        await change(world, {"color": "blue"}, name="others")
        await corrected(world)

    assert [event.reason for event in world.events] == ["DriftDetected", "DriftCorrected"]
    assert "ConfigMap/" in world.events[1].message
    assert "others configured" in world.events[1].message


@asynccontextmanager
async def restarted(world: RealWorld) -> AsyncIterator[None]:
    """Have another process go on with the release; its watches begin anew."""
    world.clusters.forget(world.key)
    world.start()
    world.shows_records()
    follow = asyncio.create_task(world.clusters.run())
    try:
        yield
    finally:
        follow.cancel()
        await asyncio.gather(follow, return_exceptions=True)
