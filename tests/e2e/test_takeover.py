"""A cluster that Flux reconciled is taken over: equal objects stay, others are put right.

The objects are as kustomize-controller 1.9 leaves them: applied server-side by its field manager,
with its two labels, listed in the inventory of a Kustomization with its status and finalizer.
"""

import json

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    DEPLOYMENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    SERVICE_ACCOUNT,
    Space,
    condition,
    config_map,
    deployment,
)
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

FLUX = "kustomize-controller"
"""The name of the controller and of its field manager."""
THEN = "2026-01-01T00:00:00Z"
ACCOUNT = json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
FILES = {
    "deploy.yaml": deployment("web", replicas=2),
    "settings.yaml": config_map("settings", colour="green"),
    "account.yaml": ACCOUNT,
}
KEPT = ((DEPLOYMENT, "web"), (CONFIG_MAP, "settings"), (SERVICE_ACCOUNT, "robot"))


async def left_by_flux(space: Space, *manifests: str) -> list[Json]:
    """Apply objects as Flux's controller does, and return the entries of its inventory."""
    owner = {"name": "app", "namespace": space.namespace}
    labels = {f"kustomize.toolkit.fluxcd.io/{key}": value for key, value in owner.items()}
    entries = []
    for manifest in manifests:
        obj = yaml.safe_load(manifest)
        obj["metadata"] |= {"namespace": space.namespace, "labels": labels}
        await space.world.api.apply(obj, manager=FLUX)
        group, _, version = obj["apiVersion"].rpartition("/")
        name = obj["metadata"]["name"]
        entries.append({"id": f"{space.namespace}_{name}_{group}_{obj['kind']}", "v": version})
    return entries


async def handed_over(space: Space, commit: str, entries: list[Json]) -> None:
    """Make the suspended Kustomization with the status that Flux has written."""
    revision = f"main@sha1:{commit}"
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "ReconciliationSucceeded",
        "message": f"Applied revision: {revision}",
        "lastTransitionTime": THEN,
        "observedGeneration": 1,
    }
    obj = space.kustomization(suspend=True)
    obj["metadata"]["finalizers"] = ["finalizers.fluxcd.io"]
    await space.world.apply(obj)
    status = {
        "conditions": [ready],
        "inventory": {"entries": entries},
        "lastAppliedRevision": revision,
        "lastAttemptedRevision": revision,
        "observedGeneration": 1,
    }
    await space.world.api.patch(
        KUSTOMIZATION,
        "app",
        space.namespace,
        {"status": status},
        strategy="merge",
        subresource="status",
        manager=FLUX,
    )


def rolled_out(obj: Json) -> bool:
    """Tell whether the deployment controller has nothing more to write."""
    done = condition(obj, "Progressing").get("reason") == "NewReplicaSetAvailable"
    return done and obj["status"].get("availableReplicas") == 2


async def versions(space: Space) -> dict[str, str]:
    """Return the resource version of each object that is in the repository."""
    return {name: await version(space, gvk, name) for gvk, name in KEPT}


async def version(space: Space, gvk: GroupVersionKind, name: str) -> str:
    return str((await space.get(gvk, name))["metadata"]["resourceVersion"])


async def test_what_flux_applied_keeps_its_resource_version(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit(FILES)
    entries = await left_by_flux(space, *FILES.values(), config_map("dropped", v="1"))
    await space.world.apply(space.source(repository))
    await space.ready(GIT_REPOSITORY, revision=commit)
    await handed_over(space, commit, entries)
    await space.world.until(DEPLOYMENT, space.namespace, "web", rolled_out)
    before = await versions(space)

    await space.world.apply(space.kustomization(suspend=False))
    await space.world.gone(CONFIG_MAP, space.namespace, "dropped")
    await space.request()
    obj = await space.ready(revision=commit)

    assert await versions(space) == before
    listed = [entry["id"] for entry in obj["status"]["inventory"]["entries"]]
    assert sorted(listed) == sorted(entry["id"] for entry in entries[:-1])


async def test_what_differs_from_the_repository_is_put_right(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit(FILES)
    stale = {**FILES, "settings.yaml": config_map("settings", colour="red", old="1")}
    entries = await left_by_flux(space, *stale.values())
    await space.world.apply(space.source(repository))
    await handed_over(space, commit, entries)
    account = await version(space, SERVICE_ACCOUNT, "robot")

    await space.world.apply(space.kustomization(suspend=False))
    await space.request()
    await space.ready(revision=commit)

    assert (await space.get(CONFIG_MAP, "settings"))["data"] == {"colour": "green"}
    assert await version(space, SERVICE_ACCOUNT, "robot") == account
