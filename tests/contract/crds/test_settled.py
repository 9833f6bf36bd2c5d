"""Every object of ours comes to an end that clients which wait for it understand (kstatus).

Each kind is written in each version that is served: to be reconciled, suspended from the start, and
as an object that is only looked up. The passes are scripts; how their end is shown is not.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

import crds
from controllers.source.sources import SOURCES
from controlplane.plane import ControlPlane
from crds.kind import Kind
from tests.fakes import specs
from tests.tools.waiting import until
from toolkit.apply import health
from toolkit.apply.health import Status
from toolkit.events import Recorder
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.controller import Controller, ControllerOptions, Outcome, Reconciliation
from toolkit.objects import GroupVersionKind, Json

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("definitions")]

SPACE = f"settled-{secrets.token_hex(4)}"
OCI = {"url": "oci://registry.example.com/charts", "type": "oci"}
WAYS: Mapping[str, Json] = {
    "reconciled": {},
    "suspended": {"suspend": True},
    "static": OCI,
    "static-suspended": OCI | {"suspend": True},
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One object of a kind, written in one version."""

    kind: Kind[Any]
    version: str
    way: str
    spec: Json

    @property
    def name(self) -> str:
        return f"{self.kind.singular}-{self.version}-{self.way}"

    @property
    def object(self) -> Json:
        metadata = {"name": self.name}
        if self.kind.namespaced:
            metadata["namespace"] = SPACE
        return {
            "apiVersion": f"{self.kind.group}/{self.version}",
            "kind": self.kind.kind,
            "metadata": metadata,
            "spec": self.spec,
        }


def cases() -> list[Case]:
    """Return every kind in every served version, in every way that its spec knows."""
    found = []
    for kind in crds.KINDS:
        versions = [(kind.version, kind.model), *((old.version, old.model) for old in kind.older)]
        for version, model in versions:
            (spec,) = [each.type for each in structs.fields(model) if each.name == "spec"]
            known = {each.encode_name for each in structs.fields(spec)}
            found += [
                Case(
                    kind=kind, version=version, way=way, spec=specs.RIGHT[kind.kind] | dict(change)
                )
                for way, change in WAYS.items()
                if change.keys() <= known
            ]
    return found


CASES = cases()


async def succeed(_: Reconciliation[Any]) -> Outcome:
    return Outcome(message="done")


async def nothing(_: Reconciliation[Any]) -> None:
    return None


@asynccontextmanager
async def controllers(client: Client) -> AsyncIterator[None]:
    """Run a controller for each kind that has one, knowing as it does what is static."""
    static = {row.kind.kind: row.static for row in SOURCES}
    others = (
        crds.ARTIFACT_GENERATOR,
        crds.KUSTOMIZATION,
        crds.HELM_RELEASE,
        crds.PROVIDER,
        crds.RECEIVER,
        crds.IMAGE_REPOSITORY,
        crds.IMAGE_POLICY,
        crds.IMAGE_UPDATE_AUTOMATION,
    )
    reconciled = [*(row.kind for row in SOURCES), *others]
    made = [
        Controller(
            kind=kind,
            client=client,
            reconcile=succeed,
            finalize=nothing,
            options=ControllerOptions(namespace=SPACE, grace=5),
            recorder=Recorder(client, controller="test"),
            field_manager="test",
            static=static.get(kind.kind, lambda _: False),
        )
        for kind in reconciled
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for one in made for run in (one.informer.run, one.run)]
        await asyncio.gather(*(one.informer.wait_synced() for one in made))
        yield
        for task in tasks:
            task.cancel()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def settled(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Write half of the objects before the controllers start, and half after."""
    control_plane.kubectl("create", "namespace", SPACE)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client.open(config.from_environment(str(control_plane.kubeconfig)))
        )
        await asyncio.gather(*(client.create(case.object) for case in CASES[::2]))
        await stack.enter_async_context(controllers(client))
        await asyncio.gather(*(client.create(case.object) for case in CASES[1::2]))
        yield client
        for case in CASES:
            if not case.kind.namespaced:
                await client.delete(GroupVersionKind(*case.kind.gvk), case.name, "")
    control_plane.kubectl("delete", "namespace", SPACE, "--wait=false")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_every_object_comes_to_rest(settled: Client, case: Case) -> None:
    gvk = GroupVersionKind(case.kind.group, case.version, case.kind.kind)

    async def current() -> bool:
        obj = await settled.get(gvk, case.name, SPACE if case.kind.namespaced else "")
        return health.assess(obj).status is Status.CURRENT

    assert await until(current)
