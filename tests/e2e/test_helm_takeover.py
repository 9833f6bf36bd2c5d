"""Releases of others are taken over: what runs goes on, and follows the HelmRelease then."""

from pathlib import Path

import pytest

from tests.e2e.conftest import DEPLOYMENT, Space, condition
from tests.e2e.helmreleases import HELM_RELEASE, at, records, release, served, settings, shop
from tests.fakes import charts
from tests.tools.helmcli import Helm, beside
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

FLUX = "helm-controller"
"""The name of the controller and of its field manager."""
WRITTEN = (
    "conditions",
    "helmChart",
    "history",
    "lastAttemptedConfigDigest",
    "lastAttemptedGeneration",
    "lastAttemptedReleaseAction",
    "lastAttemptedRevision",
    "observedGeneration",
    "storageNamespace",
)
"""What Flux's controller writes of a release that it has installed."""


async def workload(space: Space) -> tuple[str, int]:
    """Return the identity of the Deployment and how often its spec was changed."""
    found = (await space.get(DEPLOYMENT, "app"))["metadata"]
    return found["uid"], found["generation"]


def available(obj: Json) -> bool:
    return bool(dig(obj, "status", "availableReplicas", default=0) == 1)


async def handed_over(space: Space, status: Json) -> None:
    """Make the suspended HelmRelease anew with what Flux has written."""
    obj = release(space, suspend=True)
    obj["metadata"]["finalizers"] = ["finalizers.fluxcd.io"]
    await space.world.apply(obj)
    left = {name: status[name] for name in WRITTEN if name in status}
    await space.world.api.patch(
        HELM_RELEASE,
        "app",
        space.namespace,
        {"status": {**left, "observedGeneration": 1, "lastAttemptedGeneration": 1}},
        strategy="merge",
        subresource="status",
        manager=FLUX,
    )


async def test_release_of_flux_is_not_released_again(space: Space) -> None:
    async with served(space, "1.0.0"):
        await space.world.apply(release(space))
        made = await at(space, "1.0.0")
        await space.suspend(HELM_RELEASE)
        await space.world.api.delete(HELM_RELEASE, "app", space.namespace)
        await space.world.gone(HELM_RELEASE, space.namespace, "app")
        before = await workload(space)

        await handed_over(space, made["status"])
        await space.world.apply(release(space, suspend=False))
        obj = await at(space, "1.0.0")

        assert condition(obj, "Ready")["reason"] == "InstallSucceeded"
        assert obj["status"]["history"] == made["status"]["history"]
        assert await records(space) == ["sh.helm.release.v1.app.v1"]
        assert await workload(space) == before

        await space.world.apply(release(space, values={"colour": "blue"}))
        obj = await at(space, "1.0.0")
        assert condition(obj, "Ready")["reason"] == "UpgradeSucceeded"
        assert (await settings(space))["colour"] == "blue"
        assert await workload(space) == before


@pytest.mark.parametrize("server_side", ["false", "true"])
async def test_release_of_helm_is_taken_over_in_place(
    space: Space, helm: Helm, tmp_path: Path, server_side: str
) -> None:
    chart = charts.write(tmp_path / "chart", shop("1.0.0"))
    where = ("--kubeconfig", Path(space.world.plane.kubeconfig), "-n", space.namespace)
    await beside(helm, "install", "app", chart, f"--server-side={server_side}", *where)
    await space.world.until(DEPLOYMENT, space.namespace, "app", available)
    before = await workload(space)

    async with served(space, "1.0.0", "1.1.0"):
        await space.world.apply(release(space, chart=pinned("1.0.0")))
        obj = await at(space, "1.0.0")

        assert condition(obj, "Ready")["reason"] == "UpgradeSucceeded"
        assert [each["version"] for each in obj["status"]["history"]] == [2]
        assert await workload(space) == before

        values = {"colour": "blue"}
        await space.world.apply(release(space, chart=pinned("1.1.0"), values=values))
        await at(space, "1.1.0")
        uid, _ = await workload(space)

    assert (await settings(space)) == {"colour": "blue", "version": "1.1.0"}
    assert uid == before[0]


def pinned(version: str) -> Json:
    source = {"kind": "HelmRepository", "name": "charts"}
    return {"spec": {"chart": "shop", "version": version, "sourceRef": source}}
