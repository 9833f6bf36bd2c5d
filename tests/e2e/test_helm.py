"""HelmReleases with the real engine: from an index to objects, other versions, repair, the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.e2e.conftest import CONFIG_MAP, DEPLOYMENT, SECRET, Space, condition, is_ready
from tests.e2e.helmsources import HELM_CHART, HELM_REPOSITORY, repository
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.charts import chart
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

HELM_RELEASE = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")

DEPLOY = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      containers: [{name: app, image: "registry.example/shop:{{ .Chart.AppVersion }}"}]
"""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  colour: {{ required "values.colour is missing" .Values.colour | quote }}
  version: {{ .Chart.Version | quote }}
"""
BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken}\ndata: {a: {b: c}}\n"


def shop(version: str, **files: str) -> dict[str, str]:
    """Return a chart of a Deployment and its settings."""
    return chart(
        "shop",
        version,
        extra=f"appVersion: '{version}'\n",
        **{
            "values.yaml": "colour: red\n",
            "templates__configmap.yaml": SETTINGS,
            "templates__deployment.yaml": DEPLOY,
            **files,
        },
    )


@asynccontextmanager
async def served(space: Space, *versions: str) -> AsyncIterator[ChartRepository]:
    """Offer versions of the chart in a HelmRepository of the namespace."""
    async with ChartRepository() as server:
        for version in versions:
            server.add("shop", version, files=shop(version))
        await space.world.apply(repository(space, server.url))
        yield server


def release(space: Space, **spec: Any) -> Json:
    """Return the HelmRelease ``app`` of the chart."""
    source = {"kind": "HelmRepository", "name": "charts"}
    return {
        "apiVersion": HELM_RELEASE.api_version,
        "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": space.namespace},
        "spec": {
            "interval": "1h",
            "chart": {"spec": {"chart": "shop", "version": ">=1", "sourceRef": source}},
            **spec,
        },
    }


async def at(space: Space, version: str) -> Json:
    """Return the HelmRelease once it is Ready in a version of the chart."""

    def holds(obj: Json) -> bool:
        return is_ready(obj) and dig(obj, "status", "lastAppliedRevision") == version

    return await space.world.until(HELM_RELEASE, space.namespace, "app", holds)


async def settings(space: Space) -> Json:
    data: Json = (await space.get(CONFIG_MAP, "app"))["data"]
    return data


async def records(space: Space) -> list[str]:
    """Return the names of Helm's records, in the order of their versions."""
    found = await space.world.api.list(SECRET, space.namespace, label_selector="owner=helm")
    return sorted(each["metadata"]["name"] for each in found)


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

    await space.world.api.delete(HELM_RELEASE, "app", space.namespace)
    await space.world.gone(HELM_RELEASE, space.namespace, "app")
    assert await records(space) == []
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "app")
    await space.world.gone(HELM_CHART, space.namespace, f"{space.namespace}-app")


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

    assert condition(failed, "Ready")["reason"] == "RollbackSucceeded"
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
