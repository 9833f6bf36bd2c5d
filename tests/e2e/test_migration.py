"""The walk of a Flux user: cluster and repository go to Penstock, back, and to Penstock for good.

The tests follow one cluster through its life, in the order of this file (``tests.e2e.walking``).
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from cli.migrating.steps import STEPS
from controlplane import plane as planes
from tests.e2e.walking import (
    CONFIG_MAP,
    CRD,
    DEFINITION,
    FLUX,
    NAMESPACE,
    PENSTOCK,
    POLICY,
    REPLACED,
    STATE,
    Walk,
)
from tests.fakes import fluxinstallation
from tests.fakes.fluxfleet import Fleet
from tests.fakes.gitserver import GitServer
from tests.tools.waiting import until
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.objects import dig

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
            await made.settled()
            yield made


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
        await until(lambda: walk.has_colour("blue"))
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
        await until(lambda: walk.has_colour("red"))

    names = {each["metadata"]["name"] for each in await walk.api.list(DEFINITION)}
    assert {each["metadata"]["name"] for each in fluxinstallation.definitions()} <= names
    assert len(dig(obj, "status", "inventory", "entries")) == len(walk.fleet.synced)
    assert await walk.workloads() == before
