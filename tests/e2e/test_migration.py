"""The walk of a Flux user: cluster and repository go to Penstock, back, and to Penstock for good.

The tests follow one cluster through its life, in the order of this file. Flux's controllers are
Deployments whose pods kwok runs. Those of Penstock are installed in the same way, and the processes
that do the work run on this machine, under the accounts that were installed.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cli.installing import flux
from cli.migrating.steps import STEPS
from cli.stack import stack as stacks
from controlplane import plane as planes
from controlplane.plane import ControlPlane
from tests.fakes import fluxinstallation
from tests.fakes.fluxfleet import GIT_REPOSITORY, KUSTOMIZATION, Fleet
from tests.fakes.gitserver import GitServer
from tests.tools.waiting import until
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = Path(__file__).parents[2]
FLUX, PENSTOCK = "flux-system", "penstock-system"
CONTROLLERS = ("source", "kustomize")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
POLICY = GroupVersionKind("networking.k8s.io", "v1", "NetworkPolicy")
BINDING = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding")
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
REPLACED = {name for name in fluxinstallation.CONTROLLERS if flux.is_replaced(name)}
CRD = f"kustomizations.{KUSTOMIZATION.group}"
STATE = "penstock-migration"
ANNOTATION = "kustomize.toolkit.fluxcd.io/reconcile"


@dataclass(frozen=True)
class Result:
    """What one run of the command gave."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The cluster, its fleet, and the command of its administrator."""

    plane: ControlPlane
    api: Client
    fleet: Fleet
    directory: Path

    async def begin(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start ``penstock migrate --from-flux``."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cli", "migrate", "--from-flux", *arguments),
            env=os.environ | {"KUBECONFIG": str(self.plane.kubeconfig)},
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def migrate(self, *arguments: str) -> Result:
        """Run it to its end."""
        process = await self.begin(*arguments)
        out, err = await process.communicate()
        return Result(process.returncode or 0, out.decode(), err.decode())

    async def killed(self, *arguments: str, within: str) -> None:
        """Kill it once it remembers that it has begun a step."""
        process = await self.begin("--silent", *arguments)

        async def begun() -> bool:
            found = await self.api.get(CONFIG_MAP, STATE, FLUX)
            return within in json.loads(found["data"]["state.json"])["done"]

        await until(begun)
        process.kill()
        await process.communicate()

    async def done(self, *arguments: str) -> Result:
        """Run it without a question, and require that it worked."""
        result = await self.migrate("--silent", *arguments)
        assert result.code == 0, result.out + result.err
        return result

    def running(self, *more: str) -> AbstractAsyncContextManager[stacks.Stack]:
        """Run the controllers of Penstock, and more of its processes."""
        components = (*CONTROLLERS, *more)
        quick = ("--min-retry-delay=200ms", "--max-retry-delay=2s")
        options = stacks.Options(
            namespace=PENSTOCK,
            components=components,
            flags=dict.fromkeys(components, quick),
            report=lambda _: None,
        )
        state = self.directory / f"state-{len(list(self.directory.iterdir()))}"
        return stacks.start(self.plane.kubeconfig, state=state, options=options)

    async def workloads(self) -> dict[str, tuple[str, int]]:
        """Return uid and generation of every Deployment of the fleet."""
        found = await self.api.list(DEPLOYMENT, "shop")
        return {
            each["metadata"]["name"]: (each["metadata"]["uid"], each["metadata"]["generation"])
            for each in found
        }

    async def replicas(self) -> dict[str, int]:
        """Return the replicas of Flux's Deployments."""
        found = await self.api.list(DEPLOYMENT, FLUX)
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}

    async def excluded(self) -> set[str]:
        """Return which objects of Flux nobody reconciles."""
        marked = set()
        for kind in (NAMESPACE, DEFINITION, DEPLOYMENT, BINDING):
            for each in await self.api.list(kind, FLUX if kind == DEPLOYMENT else ""):
                if ANNOTATION in dig(each, "metadata", "annotations", default={}):
                    marked.add(f"{kind.kind}/{each['metadata']['name']}")
        return marked

    async def is_there(self, kind: GroupVersionKind, name: str, namespace: str = "") -> bool:
        try:
            await self.api.get(kind, name, namespace)
        except NotFoundError:
            return False
        return True

    async def applied(self, revision: str, name: str = FLUX) -> Json:
        """Return a Kustomization once it has applied a revision, and say so to its source."""
        stamp = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": revision}}}
        await self.api.patch(GIT_REPOSITORY, FLUX, FLUX, stamp, strategy="merge")

        async def look() -> Json | None:
            obj = await self.api.get(KUSTOMIZATION, name, FLUX)
            there = revision in str(dig(obj, "status", "lastAppliedRevision"))
            return obj if there else None

        found: Json = await until(look)
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def walk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Walk]:
    """Give a cluster of Flux that only these tests use."""
    directory = tmp_path_factory.mktemp("walk")
    with planes.start("pytest-migration", alternatives=8) as plane:
        admin = config.from_environment(str(plane.kubeconfig))
        async with GitServer(directory / "git") as server, Client.open(admin) as api:
            fleet = Fleet(server.repository("fleet"))
            await fleet.leave(api)
            made = Walk(plane=plane, api=api, fleet=fleet, directory=directory)
            await until(lambda: _settled(api))
            yield made


async def _settled(api: Client) -> bool:
    """Tell whether the deployment controller has nothing more to write."""
    found = await api.list(DEPLOYMENT)
    return all(
        dig(each, "status", "readyReplicas") == dig(each, "spec", "replicas") for each in found
    )


async def test_a_dry_run_tells_every_finding_and_changes_nothing(walk: Walk) -> None:
    before = await walk.replicas()

    told = await walk.migrate("--dry-run", "-o", "json")

    assert told.code == 1
    said = json.loads(told.out)
    assert {row["check"] for row in said["findings"] if row["result"] == "blocking"} == {
        "references"
    }
    by_check: dict[str, list[Any]] = {}
    for row in said["findings"]:
        by_check.setdefault(row["check"], []).append(row)
    assert {"cluster", "controllers", "keepers", "bindings"} <= by_check.keys()
    assert len(by_check["controllers"]) == len(fluxinstallation.CONTROLLERS)
    assert [row["object"] for row in by_check["keepers"]] == [f"Kustomization/{FLUX}/{FLUX}"]
    assert "shop/extra" in by_check["references"][0]["object"]
    assert by_check["bindings"][0]["object"] == f"ClusterRoleBinding/cluster-reconciler-{FLUX}"
    assert [row["name"] for row in said["steps"]] == [step.name for step in STEPS]
    assert not any(row["done"] for row in said["steps"])
    assert await walk.replicas() == before
    assert not await walk.excluded()
    assert not await walk.is_there(CONFIG_MAP, STATE, FLUX)


async def test_what_blocks_ends_it_before_the_first_step(walk: Walk) -> None:
    refused = await walk.migrate("--silent")

    assert refused.code == 1
    assert "findings block the migration" in refused.err
    assert "--allow-references" in refused.out
    assert not await walk.is_there(CONFIG_MAP, STATE, FLUX)


@pytest.mark.parametrize("step", [1, 2, 3])
async def test_what_was_begun_is_undone(walk: Walk, step: int) -> None:
    before = await walk.replicas()
    await walk.done("--allow-references", f"--until={step}")
    assert bool(await walk.excluded()) is (step > 1)

    await walk.done("--rollback")

    assert await walk.replicas() == before
    assert not await walk.excluded()
    assert not await walk.is_there(CONFIG_MAP, STATE, FLUX)


@pytest.mark.slow
async def test_penstock_takes_over_and_no_workload_changes(walk: Walk) -> None:
    before = await walk.workloads()

    await walk.done("--allow-references", "--until=3")
    # What is remembered is how Flux ran, not what an interrupted run has made of it.
    await walk.killed("--allow-references", within="install")
    async with walk.running("webhooks"):
        taken = await walk.done("--allow-references")
        commit = walk.fleet.change_settings("blue")
        obj = await walk.applied(commit)

        assert f"step {len(STEPS)} of {len(STEPS)}" in taken.err
        assert await walk.workloads() == before
        assert {name for name, count in (await walk.replicas()).items() if not count} == REPLACED
        assert len(dig(obj, "status", "inventory", "entries")) == len(walk.fleet.built[FLUX])
        kept = await walk.api.get(DEFINITION, CRD)
        assert "v1beta2" in {each["name"] for each in kept["spec"]["versions"]}
        await until(lambda: _has_colour(walk, "blue"))
        assert await walk.is_there(POLICY, "allow-artifacts-to-flux", PENSTOCK)
        unfinished = await walk.migrate("--finish", "--silent")
        assert unfinished.code == 1
        assert "still applies" in unfinished.err


@pytest.mark.slow
async def test_flux_gets_its_controllers_back_and_no_workload_changes(walk: Walk) -> None:
    before = await walk.workloads()

    back = await walk.done("--rollback")

    assert "Flux reconciles again" in back.err
    assert "of yours" not in back.err, back.err
    assert await walk.replicas() == dict.fromkeys(fluxinstallation.CONTROLLERS, 1)
    assert not await walk.excluded()
    assert not await walk.is_there(NAMESPACE, PENSTOCK)
    assert not await walk.is_there(CONFIG_MAP, STATE, FLUX)
    labels = (await walk.api.get(DEFINITION, CRD))["metadata"]["labels"]
    assert labels["app.kubernetes.io/part-of"] == "flux"
    assert labels["kustomize.toolkit.fluxcd.io/name"] == FLUX
    assert await walk.workloads() == before
    again = await walk.migrate("--rollback", "--silent")
    assert again.code == 1
    assert "none to undo" in again.err


@pytest.mark.slow
async def test_finishing_leaves_the_kinds_the_namespace_and_every_workload(walk: Walk) -> None:
    before = await walk.workloads()
    await walk.done("--allow-references", "--until=3")

    async with walk.running():
        await walk.done("--allow-references")
        commit = walk.fleet.without_components()
        await walk.applied(commit)
        await walk.done("--finish")

        assert set(await walk.replicas()) == set(fluxinstallation.CONTROLLERS) - REPLACED
        assert await walk.is_there(NAMESPACE, FLUX)
        assert not await walk.excluded()
        commit = walk.fleet.change_settings("red")
        obj = await walk.applied(commit)
        await until(lambda: _has_colour(walk, "red"))

    names = {each["metadata"]["name"] for each in await walk.api.list(DEFINITION)}
    assert {each["metadata"]["name"] for each in fluxinstallation.definitions()} <= names
    assert len(dig(obj, "status", "inventory", "entries")) == len(walk.fleet.synced)
    assert await walk.workloads() == before


async def _has_colour(walk: Walk, colour: str) -> bool:
    found = await walk.api.get(CONFIG_MAP, "settings", "shop")
    return bool(found["data"]["colour"] == colour)
