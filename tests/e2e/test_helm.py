"""HelmReleases with the real engine: from an index to objects, other versions, repair, the end."""

from http import HTTPStatus

import aiohttp
import pytest

from tests.e2e.conftest import CONFIG_MAP, DEPLOYMENT, Space, condition
from tests.e2e.helmreleases import (
    BROKEN,
    HELM_RELEASE,
    at,
    records,
    release,
    served,
    settings,
    shop,
)
from tests.e2e.helmsources import HELM_CHART, HELM_REPOSITORY, repository
from tests.tools.waiting import until
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_release_is_installed_upgraded_healed_and_uninstalled(space: Space) -> None:
    drift = {"mode": "enabled"}
    async with served(space, "1.0.0") as server:
        await space.world.apply(release(space, driftDetection=drift))
        first = await at(space, "1.0.0")

        name = f"{space.namespace}/app.v1"
        message = f"Helm install succeeded for release {name} with chart shop@1.0.0"
        ready = condition(first, "Ready")
        assert (ready["reason"], ready["message"]) == ("InstallSucceeded", message)
        assert await settings(space) == {"colour": "red", "version": "1.0.0"}
        deployed = await space.get(DEPLOYMENT, "app")
        assert dig(deployed, "status", "availableReplicas") == 1
        assert deployed["metadata"]["labels"]["helm.toolkit.fluxcd.io/name"] == "app"
        assert await records(space) == ["sh.helm.release.v1.app.v1"]
        assert first["status"]["helmChart"] == f"{space.namespace}/{space.namespace}-app"
        entries = [each["id"] for each in first["status"]["inventory"]["entries"]]
        assert sorted(entries) == [
            f"{space.namespace}_app__ConfigMap",
            f"{space.namespace}_app_apps_Deployment",
        ]

        server.add("shop", "1.1.0", files=shop("1.1.0"))
        await space.request(HELM_REPOSITORY, "charts")
        second = await at(space, "1.1.0")
        assert [each["status"] for each in second["status"]["history"]] == [
            "deployed",
            "superseded",
        ]
        assert (await settings(space))["version"] == "1.1.0"

    await space.world.api.patch(
        CONFIG_MAP,
        "app",
        space.namespace,
        {"data": {"colour": "green"}},
        strategy="merge",
        manager="somebody",
    )
    await space.told("has drifted from the desired state", HELM_RELEASE)
    await space.told(f"ConfigMap/{space.namespace}/app configured", HELM_RELEASE)
    assert (await settings(space))["colour"] == "red"
    await at(space, "1.1.0")
    chart = await space.get(HELM_CHART, f"{space.namespace}-app")

    await space.world.api.delete(HELM_RELEASE, "app", space.namespace)
    await space.world.gone(HELM_RELEASE, space.namespace, "app")
    assert await records(space) == []
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "app")
    await space.world.gone(HELM_CHART, space.namespace, f"{space.namespace}-app")
    assert "finalizers" not in chart["metadata"]
    await until(lambda: _missing(chart["status"]["artifact"]["url"]))


async def _missing(url: str) -> bool:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status == HTTPStatus.NOT_FOUND


async def test_failing_upgrade_is_rolled_back_and_a_correction_is_released(space: Space) -> None:
    upgrade = {"remediation": {"retries": 0, "remediateLastFailure": True}}
    async with served(space, "1.0.0") as server:
        await space.world.apply(release(space, upgrade=upgrade))
        await at(space, "1.0.0")
        server.add("shop", "2.0.0", files=shop("2.0.0", **{"templates__broken.yaml": BROKEN}))
        await space.request(HELM_REPOSITORY, "charts")

        def stalls(obj: Json) -> bool:
            return condition(obj, "Stalled").get("reason") == "RetriesExceeded"

        failed = await space.world.until(HELM_RELEASE, space.namespace, "app", stalls)
        kept = await settings(space)
        server.add("shop", "2.0.1", files=shop("2.0.1"))
        await space.request(HELM_REPOSITORY, "charts")
        await at(space, "2.0.1")

    assert condition(failed, "Ready")["reason"] == "UpgradeFailed"
    released = condition(failed, "Released")
    assert released["reason"] == "UpgradeFailed"
    assert released["message"].startswith(
        f"Helm upgrade failed for release {space.namespace}/app with chart shop@2.0.0: "
    )
    assert kept == {"colour": "red", "version": "1.0.0"}


async def test_objects_that_are_not_ready_in_time_fail_the_release(space: Space) -> None:
    never = {"apiVersion": "v1", "kind": "ConfigMap", "current": "data.version == '9'"}
    async with served(space, "1.0.0"):
        await space.world.apply(release(space, timeout="1s", healthCheckExprs=[never]))
        failed = await space.refused(HELM_RELEASE, saying="context deadline exceeded")
        record = await records(space)

        del never["current"]
        always = {**never, "current": "data.version == '1.0.0'"}
        await space.world.apply(release(space, healthCheckExprs=[always]))
        healed = await at(space, "1.0.0")

    assert condition(failed, "Ready")["reason"] == "InstallFailed"
    assert f"resource ConfigMap/{space.namespace}/app not ready" in str(failed["status"])
    assert failed["status"]["history"][0]["status"] == "failed"
    assert record == ["sh.helm.release.v1.app.v1"]
    assert condition(healed, "Ready")["reason"] == "UpgradeSucceeded"


async def test_values_that_break_the_schema_are_told_and_leave_no_record(space: Space) -> None:
    schema = '{"properties": {"colour": {"enum": ["red", "blue"]}}}'
    async with served(space) as server:
        server.add("shop", "1.0.0", files=shop("1.0.0", **{"values.schema.json": schema}))
        await space.world.apply(
            repository(space, server.url), release(space, values={"colour": "pink"})
        )
        failed = await space.refused(HELM_RELEASE, saying="Helm install failed")
        kept = await records(space)
        await space.world.apply(release(space, values={"colour": "blue"}))
        await at(space, "1.0.0")

    assert "colour" in condition(failed, "Ready")["message"]
    assert failed["status"].get("installFailures", 0) == 0
    assert kept == []


async def test_values_come_from_labelled_secrets_at_once_and_stay_out_of_messages(
    space: Space,
) -> None:
    def secret(text: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "colours",
                "namespace": space.namespace,
                "labels": {"reconcile.fluxcd.io/watch": "Enabled"},
            },
            "stringData": {"values.yaml": text},
        }

    async with served(space, "1.0.0"):
        await space.world.apply(secret("colour: hush-blue"))
        await space.world.apply(release(space, valuesFrom=[{"kind": "Secret", "name": "colours"}]))
        await at(space, "1.0.0")
        assert (await settings(space))["colour"] == "hush-blue"

        await space.world.apply(secret("colour: hush-green"))

        async def green() -> bool:
            return bool((await settings(space))["colour"] == "hush-green")

        await until(green)
        await at(space, "1.0.0")
        obj = await space.get(HELM_RELEASE, "app")

    assert "hush" not in str(obj["status"])
    assert "hush" not in space.world.stack.log("helm").read_text()


async def test_release_acts_as_the_account_that_it_names(space: Space) -> None:
    account = {"name": "tenant", "namespace": space.namespace}
    await space.world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    async with served(space, "1.0.0"):
        await space.world.apply(release(space, serviceAccountName="tenant"))

        refused = await space.refused(HELM_RELEASE, saying="tenant")

    assert (
        f"system:serviceaccount:{space.namespace}:tenant" in condition(refused, "Ready")["message"]
    )
    assert await records(space) == []


async def test_two_of_one_release_are_told_apart_and_take_turns(space: Space) -> None:
    def conflicts(obj: Json) -> bool:
        return condition(obj, "Stalled").get("reason") == "ReleaseConflict"

    async with served(space, "1.0.0"):
        await space.world.apply(release(space))
        await at(space, "1.0.0")
        rival = release(space, releaseName="app")
        rival["metadata"]["name"] = "rival"
        await space.world.apply(rival)
        told = await space.world.until(HELM_RELEASE, space.namespace, "rival", conflicts)
        before = await records(space)

        suspended = {"spec": {"suspend": True}}
        place = (HELM_RELEASE, "app", space.namespace)
        await space.world.api.patch(*place, suspended, strategy="merge")
        await space.ready(HELM_RELEASE, "rival")
        await space.world.api.delete(*place)
        await space.world.gone(HELM_RELEASE, space.namespace, "app")

    message = condition(told, "Ready")["message"]
    assert f"belongs to HelmRelease '{space.namespace}/app'" in message
    assert "give this one another spec.releaseName" in message
    assert before == ["sh.helm.release.v1.app.v1"]
    assert "sh.helm.release.v1.app.v2" in await records(space)
    assert await settings(space) == {"colour": "red", "version": "1.0.0"}
