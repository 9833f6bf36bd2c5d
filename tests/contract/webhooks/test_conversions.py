"""The process converts between versions, and does so before its own caches are complete."""

import asyncio
import dataclasses
import sys
from pathlib import Path

import pytest

import crds
from certs import injection
from tests.contract.webhooks.conftest import Gate
from toolkit.kube import rbac
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig
from webhooks import configuration
from webhooks.plugin import Plugin
from webhooks.services import Cache, Services

CRDS = Path(crds.__file__).parent / "yaml"
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")


def old(gate: Gate) -> Json:
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1beta1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": gate.namespace},
        "spec": {
            "interval": "5m",
            "path": "./deploy",
            "prune": True,
            "validation": "client",
            "sourceRef": {"kind": "GitRepository", "name": "app"},
            "patchesStrategicMerge": [{"apiVersion": "v1", "kind": "ConfigMap"}],
        },
    }


@pytest.mark.usefixtures("definitions")
async def test_an_old_version_reads_back_as_it_was_written(gate: Gate) -> None:
    await gate.start()

    async def written() -> bool:
        said = await gate.apply(old(gate))
        return "created" in said or "unchanged" in said

    await gate.until(written)
    back = await gate.admin.get(
        GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1beta1", "Kustomization"),
        "app",
        gate.namespace,
    )
    assert back["spec"].items() >= old(gate)["spec"].items()


async def strategies(gate: Gate) -> set[str]:
    """Return how the API server converts those of our kinds that need it."""
    names = {kind.crd_name for kind in crds.KINDS if kind.converted}
    found = await gate.admin.list(injection.DEFINITION)
    return {
        dig(each, "spec", "conversion", "strategy")
        for each in found
        if each["metadata"]["name"] in names
    }


async def armed(gate: Gate) -> bool:
    asked = [each["metadata"]["name"] for each in await gate.admin.list(injection.VALIDATING)]
    return await strategies(gate) == {"Webhook"} and configuration.CONFIGURATION in asked


async def disarmed(gate: Gate) -> bool:
    asked = [each["metadata"]["name"] for each in await gate.admin.list(injection.VALIDATING)]
    return await strategies(gate) == {"None"} and configuration.CONFIGURATION not in asked


@pytest.mark.usefixtures("definitions")
async def test_nobody_is_asked_when_our_namespace_goes_and_the_process_still_answers(
    gate: Gate,
) -> None:
    row, _ = gate.row("gate")
    replica = await gate.start(row)
    await gate.until(lambda: armed(gate))

    await gate.kubectl("delete", "namespace", gate.namespace, "--wait=false")

    await gate.until(lambda: disarmed(gate))
    assert not replica.task.done()


@pytest.mark.usefixtures("definitions")
async def test_what_a_command_disarms_stays_so_until_the_process_starts_again(gate: Gate) -> None:
    row, _ = gate.row("gate")
    replica = await gate.start(row)
    await gate.until(lambda: armed(gate))

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "webhooks", "disarm"),
        f"--kubeconfig={gate.control_plane.kubeconfig}",
    )

    assert await process.wait() == 0
    await asyncio.sleep(2)
    assert await disarmed(gate)
    await replica.stop()
    await gate.start(row)
    await gate.until(lambda: armed(gate))


@pytest.mark.usefixtures("definitions")
async def test_old_objects_reach_the_cache_of_a_plugin(gate: Gate) -> None:
    """The cache may list what only this process can convert, so it is ready before that."""
    row, seen = gate.row("gate")
    caches: list[Cache[bytes]] = []

    def make(services: Services) -> Plugin:
        caches.append(services.watch(KUSTOMIZATION, decode=bytes))
        return seen

    rights = rbac.Rule(
        groups=(KUSTOMIZATION.group,), resources=("kustomizations",), verbs=("list", "watch")
    )
    await gate.start(dataclasses.replace(row, make=make, permissions=(rights,)))
    await gate.asked(seen)
    assert caches[0].synced

    await gate.apply(old(gate))

    async def cached() -> bool:
        return ObjectKey(gate.namespace, "app") in caches[0].items()

    await gate.until(cached)
