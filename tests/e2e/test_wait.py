"""Waiting for health: what is waited for, how it ends, and that it holds nobody else up."""

import secrets
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio
import yaml

from controlplane.plane import ControlPlane
from crds.meta import parse_duration
from tests.e2e.conftest import (
    CONFIG_MAP,
    DEPLOYMENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    Space,
    World,
    condition,
    config_map,
    deployment,
    is_ready,
)
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHASES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "current": "data.phase == 'done'",
    "failed": "data.phase == 'broken'",
    "inProgress": "data.phase == 'working'",
}
"""ConfigMaps as work whose progress somebody else notes under ``phase``."""


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def overdue(world: World, control_plane: ControlPlane) -> AsyncIterator[Space]:
    """Begin a wait that nothing ends but its timeout, of which the last test sees the outcome."""
    space = Space(world=world, namespace=f"test-{secrets.token_hex(4)}")
    control_plane.kubectl("create", "namespace", space.namespace)
    await commit(space, {"web.yaml": unschedulable("web"), "a.yaml": config_map("fine")})
    await space.world.apply(space.kustomization(wait=True, timeout="5s", retryInterval="10m"))
    yield space
    control_plane.kubectl("delete", "namespace", space.namespace, "--wait=false")


async def commit(space: Space, files: Mapping[str, str | None]) -> str:
    """Commit to the space's only repository and return once that is fetched."""
    if space.repositories:
        made = space.repositories[0].commit(files)
        await space.request(GIT_REPOSITORY)
    else:
        made = space.repository().commit(files)
        await space.world.apply(space.source(space.repositories[0]))
    await space.ready(GIT_REPOSITORY, revision=made)
    return made


def unschedulable(name: str) -> str:
    """Return a Deployment whose pods never find a node."""
    obj = yaml.safe_load(deployment(name))
    obj["spec"]["template"]["spec"]["nodeSelector"] = {"example.org/no-such": "node"}
    return yaml.safe_dump(obj)


async def note(space: Space, name: str, phase: str) -> None:
    """Note the progress of a ConfigMap as its controller would."""
    await space.world.until(CONFIG_MAP, space.namespace, name, bool)
    await space.world.api.patch(
        CONFIG_MAP,
        name,
        space.namespace,
        {"data": {"phase": phase}},
        strategy="merge",
        manager="worker",
    )


async def waiting(space: Space, name: str = "app", *, revision: str = "") -> Json:
    """Return the Kustomization once it waits for health."""

    def holds(obj: Json) -> bool:
        ready = condition(obj, "Ready")
        attempted = dig(obj, "status", "lastAttemptedRevision", default="")
        return "Running health checks" in ready.get("message", "") and revision in attempted

    return await space.world.until(KUSTOMIZATION, space.namespace, name, holds)


async def all_seen(space: Space) -> None:
    """Return once the controller has seen all that happened to ConfigMaps so far.

    The marker's wait ends by an event that comes by the same watch, after all of that.
    """
    checks = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "marker-job"}]
    await space.world.apply(
        space.kustomization(
            *("marker",), namePrefix="marker-", healthChecks=checks, healthCheckExprs=[PHASES]
        )
    )
    await waiting(space, "marker")
    await note(space, "marker-job", "done")
    await space.ready(name="marker")


async def unhealthy(space: Space, name: str = "app") -> Json:
    """Return the Kustomization once its health check has failed."""
    return await space.refused(name=name, saying="health check failed")


async def test_wait_shows_what_it_does_and_ends_when_the_last_object_is_healthy(
    space: Space,
) -> None:
    made = await commit(
        space, {"a.yaml": config_map("job", kind="migration"), "w.yaml": deployment("web")}
    )
    await space.world.apply(space.kustomization(wait=True, healthCheckExprs=[PHASES]))
    before = await waiting(space)
    await note(space, "job", "working")
    await all_seen(space)
    meanwhile = await space.get(KUSTOMIZATION, "app")
    await note(space, "job", "done")
    after = await space.ready(revision=made)

    message = f"Running health checks for revision main@sha1:{made} with a timeout of 9m30s"
    assert condition(before, "Ready")["message"] == message
    assert condition(before, "Ready")["status"] == "Unknown"
    assert condition(before, "Ready")["reason"] == "Progressing"
    assert condition(before, "Reconciling")["status"] == "True"
    assert condition(meanwhile, "Ready") == condition(before, "Ready")
    assert condition(after, "Healthy")["status"] == "True"
    assert not condition(after, "Reconciling")


async def test_failed_object_ends_the_wait_and_is_named(space: Space) -> None:
    await commit(
        space, {"job.yaml": config_map("job", kind="migration"), "web.yaml": unschedulable("web")}
    )
    await space.world.apply(
        space.kustomization(wait=True, retryInterval="10m", healthCheckExprs=[PHASES])
    )
    await waiting(space)

    await note(space, "job", "broken")
    obj = await unhealthy(space)

    message = condition(obj, "Ready")["message"]
    assert f"ConfigMap/{space.namespace}/job status: 'Failed'" in message
    assert f"Deployment/{space.namespace}/web status: 'InProgress'" in message
    assert "failed early due to stalled resources: [" in message
    assert condition(obj, "Ready")["reason"] == "HealthCheckFailed"
    assert condition(obj, "Healthy")["status"] == "False"
    assert condition(obj, "Healthy")["reason"] == "HealthCheckFailed"
    assert condition(obj, "Reconciling")["reason"] == "ProgressingWithRetry"
    assert obj["status"]["history"][0]["lastReconciledStatus"] == "HealthCheckFailed"
    assert "lastAppliedRevision" not in obj["status"]
    assert len(obj["status"]["inventory"]["entries"]) == 2


async def test_failed_check_recovers_at_the_retry_interval(space: Space) -> None:
    made = await commit(space, {"job.yaml": config_map("job", kind="migration")})
    await space.world.apply(
        space.kustomization(wait=True, retryInterval="1s", healthCheckExprs=[PHASES])
    )
    await waiting(space)
    await note(space, "job", "broken")
    await unhealthy(space)

    await note(space, "job", "done")
    obj = await space.ready(revision=made)

    assert condition(obj, "Healthy")["status"] == "True"
    told = await space.told("Health check passed in")
    assert "Reconciliation finished in" in told["message"]


async def test_what_falls_ill_later_is_told_at_the_next_interval(space: Space) -> None:
    made = await commit(space, {"job.yaml": config_map("job", kind="migration")})
    await space.world.apply(
        space.kustomization(wait=True, interval="1s", retryInterval="1s", healthCheckExprs=[PHASES])
    )
    await note(space, "job", "done")
    await space.ready(revision=made)

    await note(space, "job", "broken")
    obj = await unhealthy(space)
    await note(space, "job", "done")
    mended = await space.ready()

    assert f"ConfigMap/{space.namespace}/job status: 'Failed'" in condition(obj, "Ready")["message"]
    assert made in obj["status"]["lastAppliedRevision"]
    assert condition(mended, "Healthy")["status"] == "True"


async def test_deletion_does_not_wait_for_health(space: Space) -> None:
    await commit(space, {"web.yaml": unschedulable("web")})
    await space.world.apply(space.kustomization(wait=True, timeout="5m"))
    await space.world.until(DEPLOYMENT, space.namespace, "web", bool)
    await waiting(space)

    await space.world.api.delete(KUSTOMIZATION, "app", space.namespace)

    await space.world.gone(KUSTOMIZATION, space.namespace, "app")
    await space.world.gone(DEPLOYMENT, space.namespace, "web")


async def test_new_commit_ends_the_wait_for_the_old_one(space: Space) -> None:
    old = await commit(space, {"web.yaml": unschedulable("web")})
    await space.world.apply(space.kustomization(wait=True, timeout="5m"))
    await waiting(space, revision=old)

    new = await commit(space, {"web.yaml": deployment("web")})
    obj = await space.ready(revision=new)

    outcomes = [e["lastReconciledStatus"] for e in obj["status"]["history"]]
    assert outcomes == ["ReconciliationSucceeded"]
    assert (await space.get(DEPLOYMENT, "web"))["status"]["availableReplicas"] == 1


async def test_waits_hold_no_worker(space: Space) -> None:
    await commit(space, {"web.yaml": unschedulable("web"), "other/a.yaml": config_map("a")})
    stuck = [f"stuck-{n}" for n in range(6)]  # more than there are workers
    await space.world.apply(
        *(space.kustomization(n, namePrefix=f"{n}-", wait=True, timeout="5m") for n in stuck)
    )
    for name in stuck:
        await waiting(space, name)

    await space.world.apply(space.kustomization(path="./other", wait=True))
    await space.ready()

    states = [condition(await space.get(KUSTOMIZATION, name), "Ready")["status"] for name in stuck]
    assert states == ["Unknown"] * len(stuck)


async def test_health_checks_concern_the_named_objects_alone(space: Space) -> None:
    made = await commit(
        space, {"web.yaml": unschedulable("web"), "a.yaml": config_map("job", kind="migration")}
    )
    checks = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "job"},
        # not ours: somebody else makes it later
        {"kind": "ConfigMap", "name": "elsewhere", "namespace": space.namespace},
    ]
    await space.world.apply(
        space.kustomization(healthChecks=checks, healthCheckExprs=[PHASES], timeout="5m")
    )
    await waiting(space)
    await note(space, "job", "done")
    await all_seen(space)
    still = await space.get(KUSTOMIZATION, "app")
    await space.world.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "elsewhere", "namespace": space.namespace},
            "data": {"phase": "done"},
        }
    )
    obj = await space.ready(revision=made)

    assert condition(still, "Ready")["status"] == "Unknown"
    assert condition(obj, "Healthy")["status"] == "True"
    assert not dig(await space.get(DEPLOYMENT, "web"), "status", "availableReplicas", default=0)


async def test_health_is_forgotten_when_nobody_asks_for_it(space: Space) -> None:
    await commit(space, {"a.yaml": config_map("job", kind="migration")})
    await space.world.apply(
        space.kustomization(wait=True, retryInterval="10m", healthCheckExprs=[PHASES])
    )
    await waiting(space)
    await note(space, "job", "broken")
    await unhealthy(space)

    await space.world.api.patch(
        KUSTOMIZATION, "app", space.namespace, {"spec": {"wait": False}}, strategy="merge"
    )
    obj = await space.ready()

    assert not condition(obj, "Healthy")


async def test_job_that_cleans_up_after_itself_counts_as_done(space: Space) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate"},
        "spec": {
            "ttlSecondsAfterFinished": 0,
            "template": {
                "metadata": {"annotations": {"kwok.x-k8s.io/complete": "true"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "a", "image": "registry.example/a"}],
                },
            },
        },
    }
    made = await commit(space, {"job.yaml": yaml.safe_dump(job)})

    await space.world.apply(space.kustomization(wait=True))

    await space.ready(revision=made)


async def test_object_that_is_suspended_in_git_is_not_waited_for(space: Space) -> None:
    child = space.kustomization("child", path="child")
    files = {"apps/child.yaml": yaml.safe_dump(child), "child/a.yaml": config_map("a")}
    await commit(space, files)
    await space.world.apply(space.kustomization(path="apps", wait=True, timeout="1h"))
    await space.ready()
    await space.ready(name="child")
    child["spec"] |= {"suspend": True, "interval": "20m"}

    made = await commit(space, {"apps/child.yaml": yaml.safe_dump(child)})
    await space.ready(revision=made)

    left = await space.get(KUSTOMIZATION, "child")
    assert left["status"]["observedGeneration"] < left["metadata"]["generation"]


async def test_wait_ends_at_its_timeout_and_names_what_is_missing(overdue: Space) -> None:
    obj = await unhealthy(overdue)

    ready = condition(obj, "Ready")
    # a timeout of less than 30 s counts as 30 s
    took = ready["message"].removeprefix("health check failed after ").partition(": ")[0]
    assert parse_duration(took) >= 30
    assert f"timeout waiting for: [Deployment/{overdue.namespace}/web" in ready["message"]
    assert "fine" not in ready["message"]
    assert ready["reason"] == "HealthCheckFailed"
    assert condition(obj, "Healthy")["status"] == "False"
    assert not is_ready(obj)
    assert await overdue.world.exists(CONFIG_MAP, overdue.namespace, "fine")
