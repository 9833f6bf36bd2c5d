"""The process converts between versions, and does so before its own caches are complete."""

import asyncio
import dataclasses
from pathlib import Path

import pytest
import pytest_asyncio

import crds
from tests.contract.webhooks.conftest import Gate
from toolkit.kube import rbac
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from webhooks.plugin import Plugin
from webhooks.services import Cache, Services

CRDS = Path(crds.__file__).parent / "yaml"
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")


@pytest_asyncio.fixture
async def installed(gate: Gate) -> None:
    """Install our kinds."""
    kubectl = gate.control_plane.kubectl
    apply = ("apply", "--server-side", "--force-conflicts", "-k", str(CRDS))
    await asyncio.to_thread(kubectl, *apply)
    await asyncio.to_thread(kubectl, "wait", "--for=condition=Established", "crd", "--all")
    gate.admin.mapper.invalidate()


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


@pytest.mark.usefixtures("installed")
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


@pytest.mark.usefixtures("installed")
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
