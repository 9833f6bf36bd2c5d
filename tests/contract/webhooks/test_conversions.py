"""The process converts between versions, and does so before its own caches are complete."""

import asyncio
import contextlib
import dataclasses
import sys
from collections.abc import AsyncIterator

import pytest

import crds
from certs import injection
from tests.contract.webhooks import tenants
from tests.contract.webhooks.conftest import Gate
from tests.tools import namespaces
from toolkit.kube import rbac
from toolkit.objects import GroupVersionKind, ObjectKey, dig
from webhooks import configuration, definitions
from webhooks.plugin import Plugin
from webhooks.services import Cache, Services

CONVERTED = sorted(kind.crd_name for kind in crds.KINDS if kind.converted)
STORAGE_CLASS = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")
GIT_REPOSITORY = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)


@pytest.mark.usefixtures("definitions")
async def test_an_old_version_reads_back_as_it_was_written(gate: Gate) -> None:
    await gate.start()

    async def written() -> bool:
        said = await gate.kubectl.answer("apply", obj=tenants.old(gate.namespace))
        return "created" in said or "unchanged" in said

    await gate.until(written)
    back = await gate.admin.get(
        GroupVersionKind(GIT_REPOSITORY.group, "v1beta1", GIT_REPOSITORY.kind),
        "app",
        gate.namespace,
    )
    assert back["spec"].items() >= tenants.old(gate.namespace)["spec"].items()


async def strategies(gate: Gate) -> dict[str, str]:
    """Return how the API server converts those of our kinds that need it."""
    found = {each["metadata"]["name"]: each for each in await gate.admin.list(injection.DEFINITION)}
    return {name: dig(found[name], "spec", "conversion", "strategy") for name in CONVERTED}


async def configured(gate: Gate, gvk: GroupVersionKind = injection.VALIDATING) -> bool:
    asked = [each["metadata"]["name"] for each in await gate.admin.list(gvk)]
    return configuration.CONFIGURATION in asked


async def armed(gate: Gate) -> bool:
    return {*(await strategies(gate)).values()} == {"Webhook"} and await configured(gate)


async def disarmed(gate: Gate) -> bool:
    return {*(await strategies(gate)).values()} == {"None"} and not await configured(gate)


@pytest.mark.usefixtures("definitions")
async def test_nobody_is_asked_when_our_namespace_goes_and_the_process_still_answers(
    gate: Gate,
) -> None:
    row, _ = gate.row("gate")
    replica = await gate.start(row)
    await gate.until(lambda: armed(gate))

    await gate.admin.delete(namespaces.NAMESPACE, gate.namespace)

    await gate.until(lambda: disarmed(gate))
    assert not replica.task.done()


@pytest.mark.usefixtures("definitions")
async def test_what_a_command_disarms_stays_so_until_the_process_starts_again(gate: Gate) -> None:
    row, _ = gate.row("gate")
    watch = rbac.Rule(
        groups=(STORAGE_CLASS.group,), resources=("storageclasses",), verbs=("list", "watch")
    )
    needy, _ = gate.row("needy", mutating=True, needed=STORAGE_CLASS, permissions=(watch,))
    replica = await gate.start(row, needy)
    await gate.until(lambda: armed(gate))

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "webhooks", "disarm"),
        f"--kubeconfig={gate.control_plane.kubeconfig}",
    )

    assert await process.wait() == 0
    assert await disarmed(gate)
    async with gone_over(gate):
        assert [*(await strategies(gate)).values()] == ["Webhook", *["None"] * len(CONVERTED[1:])]
        assert not await configured(gate)
    await replica.stop()
    await gate.start(row)
    await gate.until(lambda: armed(gate))


@contextlib.asynccontextmanager
async def gone_over(gate: Gate) -> AsyncIterator[None]:
    """Give the process two reasons to look at everything again, and wait until it has.

    One definition may be converted again, and a policy has other plugins asked.
    """
    free = {"metadata": {"annotations": {definitions.DISARMED: None}}}
    await gate.admin.patch(injection.DEFINITION, CONVERTED[0], "", free, strategy="merge")
    kind = {"apiVersion": STORAGE_CLASS.api_version, "kind": STORAGE_CLASS.kind}
    name = gate.namespace
    await gate.admin.create({**kind, "metadata": {"name": name}, "provisioner": "example.org/none"})

    async def over() -> bool:
        converted = (await strategies(gate))[CONVERTED[0]] == "Webhook"
        return converted and await configured(gate, injection.MUTATING)

    try:
        await gate.until(over)
        yield
    finally:
        await gate.admin.delete(STORAGE_CLASS, name)


@pytest.mark.usefixtures("definitions")
async def test_old_objects_reach_the_cache_of_a_plugin(gate: Gate) -> None:
    """The cache may list what only this process can convert, so it is ready before that."""
    row, seen = gate.row("gate")
    caches: list[Cache[bytes]] = []

    def make(services: Services) -> Plugin:
        caches.append(services.watch(GIT_REPOSITORY, decode=bytes))
        return seen

    rights = rbac.Rule(
        groups=(GIT_REPOSITORY.group,), resources=("gitrepositories",), verbs=("list", "watch")
    )
    await gate.start(dataclasses.replace(row, make=make, permissions=(rights,)))
    await gate.asked(seen)
    assert caches[0].synced

    await gate.apply(tenants.old(gate.namespace))

    async def cached() -> bool:
        return ObjectKey(gate.namespace, "app") in caches[0].items()

    await gate.until(cached)
