"""The deletion of a namespace with appliers in it: what they applied elsewhere goes, or is told."""

import json

import pytest

from tests.e2e.conftest import EVENT, KUSTOMIZATION, NAMESPACE, Space
from tests.e2e.helmreleases import HELM_RELEASE, at, release, shop
from tests.e2e.helmsources import repository
from tests.fakes.chartrepository import ChartRepository
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = GroupVersionKind(RBAC, "v1", "ClusterRole")
CLUSTER_ROLE_BINDING = GroupVersionKind(RBAC, "v1", "ClusterRoleBinding")


def role(space: Space, name: str) -> Json:
    """Return a ClusterRole that gives nothing."""
    metadata = {"name": f"{space.namespace}-{name}"}
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": []}


async def deleted(space: Space) -> None:
    await space.world.api.delete(NAMESPACE, space.namespace)
    await space.world.gone(NAMESPACE, "", space.namespace)


async def test_release_leaves_no_objects_of_the_cluster(space: Space) -> None:
    chart = shop("1.0.0", templates__role_yaml=json.dumps(role(space, "released")))
    chart["templates/kept.yaml"] = json.dumps(
        role(space, "kept")
        | {
            "metadata": {
                "name": f"{space.namespace}-kept",
                "annotations": {"helm.sh/resource-policy": "keep"},
            }
        }
    )
    async with ChartRepository() as server:
        server.add("shop", "1.0.0", files=chart)
        await space.world.apply(repository(space, server.url), release(space))
        await at(space, "1.0.0")

    await deleted(space)

    assert not await space.world.exists(CLUSTER_ROLE, "", f"{space.namespace}-released")
    assert await space.world.exists(CLUSTER_ROLE, "", f"{space.namespace}-kept")
    await space.world.api.delete(CLUSTER_ROLE, f"{space.namespace}-kept")


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "denied"])
async def test_account_that_goes_with_its_namespace(space: Space, *, allowed: bool) -> None:
    account = {"name": "tenant", "namespace": space.namespace}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{space.namespace}-tenant"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
    source = space.repository()
    source.commit({"role.yaml": json.dumps(role(space, "applied"))})
    await space.world.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        binding,
        space.source(source),
        space.kustomization(serviceAccountName="tenant"),
    )
    await space.ready()
    if not allowed:
        await space.world.api.delete(CLUSTER_ROLE_BINDING, f"{space.namespace}-tenant")
    await space.world.api.delete(
        GroupVersionKind("", "v1", "ServiceAccount"), "tenant", space.namespace
    )

    await deleted(space)

    name = f"{space.namespace}-applied"
    assert await space.world.exists(CLUSTER_ROLE, "", name) is not allowed
    if not allowed:
        event = await told_of_the_namespace(space)
        assert f"ClusterRole/{name}" in event["message"]
        await space.world.api.delete(CLUSTER_ROLE, name)
    else:
        await space.world.api.delete(CLUSTER_ROLE_BINDING, f"{space.namespace}-tenant")
    assert not await space.world.exists(KUSTOMIZATION, space.namespace, "app")
    assert not await space.world.exists(HELM_RELEASE, space.namespace, "app")


async def told_of_the_namespace(space: Space) -> Json:
    """Return the event about the namespace that says that objects stay."""
    selector = f"involvedObject.kind=Namespace,involvedObject.name={space.namespace}"

    async def look() -> Json | None:
        events = await space.world.api.list(EVENT, "default", field_selector=selector)
        return next((each for each in events if "objects stay" in each["message"]), None)

    found: Json = await until(look)
    return found
