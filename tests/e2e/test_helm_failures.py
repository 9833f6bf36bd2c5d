"""HelmReleases whose process, API server or chart goes away: in an action, in a wait, later."""

import asyncio

import pytest

from tests.e2e.conftest import CONFIG_MAP, DEPLOYMENT, SECRET, Space, condition
from tests.e2e.helmreleases import HELM_RELEASE, at, records, release, served, settings, shop
from tests.e2e.helmsources import HELM_CHART, HELM_REPOSITORY
from tests.fakes.chartrepository import ChartRepository
from tests.tools.waiting import until
from toolkit.objects import Json, dig

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]

ENDLESS = """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-endless
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "registry.example/job:1"}]
"""
"""A hook that never ends: of Pods that no Job owns, none does here."""


async def statuses(space: Space) -> list[str]:
    """Return the statuses of Helm's records."""
    found = await space.world.api.list(SECRET, space.namespace, label_selector="owner=helm")
    return sorted(each["metadata"]["labels"]["status"] for each in found)


async def stuck(space: Space, server: ChartRepository, version: str, *expected: str) -> None:
    """Have an action wait for its hook, and a version of the chart that has none stored."""
    server.add("shop", version, files=shop(version, **{"templates__endless.yaml": ENDLESS}))
    await space.request(HELM_REPOSITORY, "charts")

    async def pending() -> bool:
        return await statuses(space) == list(expected)

    await until(pending)
    correction = f"{version[:-1]}1"
    server.add("shop", correction, files=shop(correction))
    await space.request(HELM_REPOSITORY, "charts")

    def stored(obj: Json) -> bool:
        return bool(dig(obj, "status", "artifact", "revision") == correction)

    await space.world.until(HELM_CHART, space.namespace, f"{space.namespace}-app", stored)


async def test_installation_that_was_killed_is_unlocked_and_a_correction_is_released(
    space: Space,
) -> None:
    async with served(space) as server:
        await space.world.apply(release(space))
        await stuck(space, server, "1.0.0", "pending-install")

        await space.world.kill_leader("helm")
        await at(space, "1.0.1")

    assert "deployed" in await statuses(space)
    assert "pending-install" not in await statuses(space)


async def test_upgrade_that_was_killed_is_unlocked_and_a_correction_is_released(
    space: Space,
) -> None:
    async with served(space, "1.0.0") as server:
        await space.world.apply(release(space))
        await at(space, "1.0.0")
        before = (await space.get(DEPLOYMENT, "app"))["metadata"]["uid"]
        await stuck(space, server, "1.1.0", "deployed", "pending-upgrade")

        await space.world.kill_leader("helm")
        await at(space, "1.1.1")

    assert "pending-upgrade" not in await statuses(space)
    assert (await settings(space))["version"] == "1.1.1"
    assert (await space.get(DEPLOYMENT, "app"))["metadata"]["uid"] == before


@pytest.mark.slow
async def test_upgrade_is_made_good_when_the_api_server_is_back(space: Space) -> None:
    """Neither the failure nor the record of it can be written meanwhile."""
    plane = space.world.plane
    async with served(space, "1.0.0") as server:
        await space.world.apply(release(space))
        await at(space, "1.0.0")
        await stuck(space, server, "1.1.0", "deployed", "pending-upgrade")

        await asyncio.to_thread(plane.stop_component, "kube-apiserver")
        try:
            log = space.world.stack.log("helm")
            await until(lambda: "could not be renewed in time" in log.read_text())
        finally:
            await asyncio.to_thread(plane.start_component, "kube-apiserver")
        obj = await at(space, "1.1.1")

    assert condition(obj, "Ready")["reason"] == "UpgradeSucceeded"
    assert "pending-upgrade" not in await statuses(space)
    assert (await settings(space))["version"] == "1.1.1"


async def test_chart_that_vanishes_leaves_its_release_until_it_is_back(space: Space) -> None:
    async with served(space, "1.0.0") as server:
        await space.world.apply(release(space))
        await at(space, "1.0.0")

        server.add("other")
        server.withdraw("shop")
        await space.request(HELM_REPOSITORY, "charts")
        await space.refused(HELM_CHART, f"{space.namespace}-app", saying="has no chart 'shop'")
        await space.request(HELM_RELEASE)
        obj = await space.refused(HELM_RELEASE, saying="has no chart 'shop'")

        assert condition(obj, "Ready")["reason"] == "SourceNotReady"
        assert await statuses(space) == ["deployed"]
        assert (await settings(space))["version"] == "1.0.0"

        server.add("shop", "1.0.1", files=shop("1.0.1"))
        await space.request(HELM_REPOSITORY, "charts")
        await at(space, "1.0.1")


async def test_wait_that_was_killed_goes_on(space: Space) -> None:
    def waits(obj: Json) -> bool:
        return condition(obj, "Released").get("status") == "Unknown" and bool(
            dig(obj, "status", "history", default=[])
        )

    later = {"apiVersion": "v1", "kind": "ConfigMap", "current": "data.colour == 'blue'"}
    later["inProgress"] = "data.colour != 'blue'"
    async with served(space, "1.0.0"):
        await space.world.apply(release(space, healthCheckExprs=[later]))
        await space.world.until(HELM_RELEASE, space.namespace, "app", waits)

        await space.world.kill_leader("helm")
        changed = {"data": {"colour": "blue"}}
        await space.world.api.patch(
            CONFIG_MAP, "app", space.namespace, changed, strategy="merge", manager="somebody"
        )
        obj = await at(space, "1.0.0")

    assert condition(obj, "Ready")["reason"] == "InstallSucceeded"
    assert await records(space) == ["sh.helm.release.v1.app.v1"]
