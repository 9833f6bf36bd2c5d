"""A namespace that stores all it may gets no more; its neighbours do; a restart forgets nothing."""

import os

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import GIT_REPOSITORY, Space, World, condition
from tests.e2e.helmreleases import HELM_RELEASE
from tests.e2e.helmsources import HELM_CHART
from tests.e2e.sources import artifact_of
from tests.fakes.charts import chart
from toolkit.objects import Json

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]

SIZE = 400 << 10
"""The rough world's quota has room for one of this size."""
CHART_SIZE = 250 << 10
"""It has room for two charts of this size."""


def large(space: Space, name: str) -> Json:
    """Return a GitRepository of content that cannot be packed."""
    repository = space.repository(name)
    repository.commit({"data.bin": os.urandom(SIZE)})
    return space.source(repository, name)


async def metric(world: World, name: str, namespace: str) -> float:
    """Return what the source component says about a namespace; 0 if nothing."""
    async with aiohttp.ClientSession() as web, web.get(world.stack.metrics("source")) as reply:
        text = await reply.text()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels.get("namespace") == namespace:
                return float(sample.value)
    return 0.0


async def test_full_namespace_gets_no_more_until_there_is_room(space: Space) -> None:
    world = space.world
    await world.apply(large(space, "first"))
    first = await space.ready(GIT_REPOSITORY, "first")

    await world.apply(large(space, "second"))
    refused = await space.refused(
        GIT_REPOSITORY, "second", saying=f"artifacts of namespace '{space.namespace}' take"
    )
    neighbour = Space(world=world, namespace=f"{space.namespace}-other")
    metadata = {"name": neighbour.namespace}
    await world.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, large(neighbour, "first")
    )
    await neighbour.ready(GIT_REPOSITORY, "first")
    await world.stack.restart("source")
    await space.request(GIT_REPOSITORY, "second")
    again = await space.get(GIT_REPOSITORY, "second")
    still = await space.get(GIT_REPOSITORY, "first")
    used = await metric(world, "penstock_artifact_stored_bytes", space.namespace)
    refusals = await metric(world, "penstock_artifact_quota_refusals_total", space.namespace)
    await world.api.delete(GIT_REPOSITORY, "first", space.namespace)
    await space.ready(GIT_REPOSITORY, "second")

    ready = condition(refused, "Ready")
    assert ready["reason"] == "StorageQuotaExceeded"
    assert "--storage-namespace-quota" in ready["message"]
    assert condition(refused, "StorageOperationFailed")["status"] == "True"
    assert condition(again, "Ready")["reason"] == "StorageQuotaExceeded"
    assert artifact_of(still)["digest"] == artifact_of(first)["digest"]
    assert used == artifact_of(first)["size"]
    assert refusals >= 1


CHART = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
"""


def filling(space: Space, platform: Space, number: int) -> Json:
    """Return a HelmRelease of the platform's chart in the tenant's namespace."""
    source = {"kind": "GitRepository", "name": "charts", "namespace": platform.namespace}
    return {
        "apiVersion": HELM_RELEASE.api_version,
        "kind": HELM_RELEASE.kind,
        "metadata": {"name": f"fill-{number}", "namespace": space.namespace},
        "spec": {"interval": "1h", "chart": {"spec": {"chart": "./shop", "sourceRef": source}}},
    }


def lending(space: Space, platform: Space) -> Json:
    """Return the grant that lets the tenant's releases use the platform's sources."""
    holder = {"group": HELM_RELEASE.group, "kind": HELM_RELEASE.kind, "namespace": space.namespace}
    return {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "tenants", "namespace": platform.namespace},
        "spec": {
            "from": [holder],
            "to": [{"group": GIT_REPOSITORY.group, "kind": GIT_REPOSITORY.kind}],
        },
    }


async def test_charts_of_a_tenant_fill_the_quota_of_the_tenant_alone(space: Space) -> None:
    world = space.world
    platform = Space(world=world, namespace=f"{space.namespace}-platform")
    repository = space.repository("charts")
    files = chart("shop", "1.0.0", **{"templates__configmap.yaml": CHART})
    repository.commit({f"shop/{name}": text for name, text in files.items()})
    repository.commit({"shop/data.bin": os.urandom(CHART_SIZE)})
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    await world.apply(
        namespace | {"metadata": {"name": platform.namespace}},
        lending(space, platform),
        platform.source(repository, "charts"),
    )
    await platform.ready(GIT_REPOSITORY, "charts")

    await world.apply(*(filling(space, platform, number) for number in range(3)))

    def settled(obj: Json) -> bool:
        return condition(obj, "Ready").get("status") in {"True", "False"}

    names = [f"{space.namespace}-fill-{number}" for number in range(3)]
    found = [await world.until(HELM_CHART, platform.namespace, name, settled) for name in names]
    used = await metric(world, "penstock_artifact_stored_bytes", platform.namespace)
    revision = repository.commit({"fix.txt": "urgent"})
    await platform.request(GIT_REPOSITORY, "charts")
    fixed = await platform.ready(GIT_REPOSITORY, "charts", revision=revision)
    full = next(each for each in found if condition(each, "Ready")["status"] == "False")
    await world.stack.restart("source")
    await platform.request(HELM_CHART, full["metadata"]["name"])
    again = await platform.get(HELM_CHART, full["metadata"]["name"])
    tenants = await metric(world, "penstock_artifact_stored_bytes", space.namespace)

    ready = [condition(each, "Ready") for each in found]
    assert sorted(each["status"] for each in ready) == ["False", "True", "True"]
    for refused in (condition(full, "Ready"), condition(again, "Ready")):
        assert refused["reason"] == "StorageQuotaExceeded"
        assert f"artifacts of namespace '{space.namespace}' take" in refused["message"]
    assert CHART_SIZE < used < 2 * CHART_SIZE
    assert artifact_of(fixed)["revision"].endswith(revision)
    assert tenants > 2 * CHART_SIZE


async def test_sources_that_come_at_once_share_one_room(space: Space) -> None:
    names = [f"source-{number}" for number in range(4)]
    folder = space.world.stack.layout.storage / "gitrepository" / space.namespace

    def settled(obj: Json) -> bool:
        return condition(obj, "Ready").get("status") in {"True", "False"}

    await space.world.apply(*(large(space, name) for name in names))
    until = space.world.until
    found = [await until(GIT_REPOSITORY, space.namespace, name, settled) for name in names]
    files = [each for each in folder.glob("*/[!.]*.tar.gz") if not each.is_symlink()]

    reasons = sorted(condition(each, "Ready")["reason"] for each in found)
    assert reasons == ["StorageQuotaExceeded"] * 3 + ["Succeeded"]
    assert len(files) == 1
