"""Releases that stock Helm made, or Flux's helm-controller, are taken over: nothing restarts.

Flux's are as ``tests.fakes.fluxrelease`` says.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import CONFIG_MAP, DEPLOYMENT, Space, condition
from tests.e2e.helmreleases import (
    HELM_RELEASE,
    SETTINGS,
    at,
    records,
    release,
    served,
    settings,
    shop,
)
from tests.fakes import charts, fluxrelease
from tests.tools.helmcli import Helm, beside
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.release import record

pytestmark = pytest.mark.asyncio(loop_scope="session")

MADE = ((DEPLOYMENT, "app"), (CONFIG_MAP, "app"))
DRIFT = {"mode": "enabled"}


async def installed(space: Space, helm: Helm, directory: Path, **files: str) -> None:
    """Install the chart as ``helm`` did before server-side apply, and wait for its rollout."""
    chart = charts.write(directory / "shop", shop("1.0.0", **files))
    where = ("--kubeconfig", Path(space.world.plane.kubeconfig), "-n", space.namespace)
    await beside(helm, "install", "app", chart, "--server-side=false", *where)
    await space.world.until(DEPLOYMENT, space.namespace, "app", rolled_out)


def rolled_out(obj: Json) -> bool:
    """Tell whether the deployment controller has nothing more to write."""
    done = condition(obj, "Progressing").get("reason") == "NewReplicaSetAvailable"
    return done and obj["status"].get("availableReplicas") == 1


async def identity(space: Space) -> tuple[str, int]:
    """Return what tells that the Deployment is the same, and is asked for the same."""
    metadata = (await space.get(DEPLOYMENT, "app"))["metadata"]
    return metadata["uid"], metadata["generation"]


async def writers(space: Space, gvk: GroupVersionKind) -> set[tuple[str, str]]:
    """Return who wrote an object's spec or data, and how."""
    fields = (await space.get(gvk, "app"))["metadata"]["managedFields"]
    return {(each["manager"], each["operation"]) for each in fields if "subresource" not in each}


async def handed_over(space: Space, **spec: Any) -> None:
    """Leave the HelmRelease of the release as Flux does, suspended, with finalizer and history."""
    obj = release(space, suspend=True, **spec)
    obj["metadata"]["finalizers"] = [fluxrelease.FINALIZER]
    await space.world.apply(obj)
    api = space.world.api
    await fluxrelease.told(api, space.namespace, "app", await stored(space))


async def stored(space: Space) -> record.Record:
    """Return the one record in Helm's storage."""
    return await fluxrelease.stored(space.world.api, space.namespace)


async def changed(space: Space) -> None:
    """Give the release another value, and wait until it has it."""
    values = {"colour": "green"}
    await space.world.apply(release(space, driftDetection=DRIFT, values=values))
    await at(space, "1.0.0")
    assert (await settings(space))["colour"] == "green"


async def heals(space: Space) -> None:
    """Change what was released by hand, and wait until it is put right."""
    await space.world.api.patch(
        CONFIG_MAP,
        "app",
        space.namespace,
        {"data": {"colour": "pink"}},
        strategy="merge",
        manager="somebody",
    )
    await space.told(f"ConfigMap/{space.namespace}/app configured", HELM_RELEASE)
    assert (await settings(space))["colour"] == "green"


async def test_release_of_stock_helm_is_taken_over_in_place(
    space: Space, helm: Helm, tmp_path: Path
) -> None:
    await installed(space, helm, tmp_path)
    before = await identity(space)
    wrote = await writers(space, CONFIG_MAP)

    async with served(space, "1.0.0"):
        await space.world.apply(release(space, driftDetection=DRIFT))
        obj = await at(space, "1.0.0")

        assert wrote == {("helm", "Update")}
        assert condition(obj, "Ready")["reason"] == "UpgradeSucceeded"
        assert await identity(space) == before
        await changed(space)
        await heals(space)

    assert await identity(space) == before
    assert await records(space) == [f"sh.helm.release.v1.app.v{n}" for n in (1, 2, 3)]


async def test_release_of_flux_goes_on_without_an_upgrade(
    space: Space, helm: Helm, tmp_path: Path
) -> None:
    marked = {
        "templates__configmap.yaml": SETTINGS.replace("metadata:\n", fluxrelease.MARKS, 1),
        "templates__deployment.yaml": charts.DEPLOYMENT.replace(
            "metadata:\n", fluxrelease.MARKS, 1
        ),
    }
    await installed(space, helm, tmp_path, **marked)
    await fluxrelease.in_its_name(space.world.api, space.namespace, MADE)
    before = await identity(space)
    history = await stored(space)

    async with served(space, "1.0.0"):
        await handed_over(space, driftDetection=DRIFT)
        await space.world.apply(release(space, driftDetection=DRIFT, suspend=False))
        obj = await at(space, "1.0.0")
        await space.request(HELM_RELEASE)

        assert await identity(space) == before
        assert await stored(space) == history
        assert dig(obj, "status", "history")[0]["digest"] == record.digest_of(history)
        assert condition(obj, "Ready")["reason"] == "InstallSucceeded"
        await changed(space)
        await heals(space)

    assert await identity(space) == before
    assert await records(space) == [f"sh.helm.release.v1.app.v{n}" for n in (1, 2)]
