"""Failures of a chart or its values: a HelmRelease tells them, and goes on once corrected."""

from typing import Any

import pytest

from tests.e2e.conftest import CONFIG_MAP, Space, condition
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
from tests.e2e.helmsources import HELM_REPOSITORY, repository
from tests.fakes.chartrepository import ChartRepository
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

POD = GroupVersionKind("", "v1", "Pod")

HOOK = """\
{{- if .Values.checked }}
apiVersion: v1
kind: Pod
metadata:
  name: check
  annotations: {helm.sh/hook: EVENT}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "registry.example/job:1"}]
{{- end }}
"""
UNKNOWN = "apiVersion: toys.example.org/v1\nkind: Gadget\nmetadata: {name: lost}\n"
FIXED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed}
immutable: true
data: {colour: "{{ .Values.colour }}"}
"""


async def offer(space: Space, server: ChartRepository, version: str, **files: str) -> None:
    """Publish a version of the chart, and have the repository seen again."""
    server.add("shop", version, files=shop(version, **files))
    await space.request(HELM_REPOSITORY, "charts")


async def fails(space: Space, pod: str) -> None:
    """End a Pod of a hook in failure, once it runs; no kubelet does so here."""

    def runs(obj: Json) -> bool:
        return bool(dig(obj, "status", "phase") == "Running")

    await space.world.until(POD, space.namespace, pod, runs)
    failed = {"status": {"phase": "Failed"}}
    await space.world.api.patch(
        POD, pod, space.namespace, failed, strategy="merge", subresource="status"
    )


def stalls(obj: Json) -> bool:
    return condition(obj, "Stalled").get("reason") == "RetriesExceeded"


async def test_failing_hook_ends_the_attempts_until_values_are_corrected(space: Space) -> None:
    async with served(space) as server:
        hook = HOOK.replace("EVENT", "pre-upgrade")
        server.add("shop", "1.0.0", files=shop("1.0.0", templates__hook_yaml=hook))
        await space.world.apply(repository(space, server.url), release(space))
        await at(space, "1.0.0")

        await space.world.apply(release(space, values={"checked": True, "colour": "blue"}))
        await fails(space, "check")
        failed = await space.world.until(HELM_RELEASE, space.namespace, "app", stalls)
        kept = await settings(space)
        await space.world.apply(release(space, values={"colour": "blue"}))
        healed = await at(space, "1.0.0")

    ready = condition(failed, "Ready")
    assert ready["reason"] == "UpgradeFailed"
    assert "pre-upgrade hooks failed" in ready["message"]
    assert failed["status"]["history"][0]["status"] == "failed"
    assert kept["colour"] == "red"
    assert condition(healed, "Ready")["reason"] == "UpgradeSucceeded"
    assert (await settings(space))["colour"] == "blue"
    assert condition(healed, "Stalled") == {}


async def test_failing_rollback_is_told_and_a_correction_is_still_released(space: Space) -> None:
    upgrade = {"remediation": {"retries": 0, "remediateLastFailure": True}}
    async with served(space) as server:
        hook = HOOK.replace("EVENT", "pre-rollback")
        server.add("shop", "1.0.0", files=shop("1.0.0", templates__hook_yaml=hook))
        await space.world.apply(
            repository(space, server.url),
            release(space, values={"checked": True}, upgrade=upgrade),
        )
        await at(space, "1.0.0")

        await offer(space, server, "2.0.0", templates__broken_yaml=BROKEN)
        await fails(space, "check")
        failed = await space.world.until(HELM_RELEASE, space.namespace, "app", stalls)
        await space.told("rollback to previous release", HELM_RELEASE)
        await offer(space, server, "2.0.1")
        healed = await at(space, "2.0.1")

    remediated = condition(failed, "Remediated")
    assert (remediated["status"], remediated["reason"]) == ("False", "RollbackFailed")
    assert f"Pod/{space.namespace}/check" in remediated["message"]
    assert condition(failed, "Ready")["reason"] == "RollbackFailed"
    assert failed["status"]["history"][0]["status"] == "failed"
    assert condition(healed, "Ready")["reason"] == "UpgradeSucceeded"
    assert condition(healed, "Remediated") == {}
    assert (await settings(space))["version"] == "2.0.1"


async def test_failing_test_fails_the_release_unless_it_is_ignored(space: Space) -> None:
    def tested(obj: Json) -> bool:
        return condition(obj, "Ready").get("reason") == "TestFailed"

    async with served(space) as server:
        hook = HOOK.replace("EVENT", "test")
        server.add("shop", "1.0.0", files=shop("1.0.0", templates__hook_yaml=hook))
        said: dict[str, Any] = {"values": {"checked": True}}
        await space.world.apply(
            repository(space, server.url), release(space, **said, test={"enable": True})
        )
        await fails(space, "check")
        failed = await space.world.until(HELM_RELEASE, space.namespace, "app", tested)
        kept = await settings(space)
        ignoring = {"enable": True, "ignoreFailures": True}
        await space.world.apply(release(space, **said, test=ignoring))
        healed = await at(space, "1.0.0")

    assert condition(failed, "TestSuccess")["status"] == "False"
    assert condition(failed, "Released")["reason"] == "InstallSucceeded"
    assert [each["phase"] for each in failed["status"]["history"][0]["testHooks"].values()] == [
        "Failed"
    ]
    assert kept["version"] == "1.0.0"
    assert condition(healed, "TestSuccess")["status"] == "False"
    assert await records(space) == ["sh.helm.release.v1.app.v1"]


async def test_values_kinds_and_changes_that_cannot_be_are_told_and_corrected(
    space: Space,
) -> None:
    late = {"kind": "ConfigMap", "name": "late"}
    async with served(space) as server:
        lost = {"templates__gadget_yaml": UNKNOWN}
        server.add("shop", "1.0.0", files=shop("1.0.0", **lost))
        await space.world.apply(repository(space, server.url), release(space, valuesFrom=[late]))
        missing = await space.refused(HELM_RELEASE, saying="/late'")
        metadata = {
            "name": "late",
            "namespace": space.namespace,
            "labels": {"reconcile.fluxcd.io/watch": "Enabled"},
        }
        values = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        await space.world.apply({**values, "data": {"values.yaml": "colour: green"}})
        unserved = await space.refused(HELM_RELEASE, saying="Gadget")
        before = await records(space)

        await offer(space, server, "1.0.1", templates__fixed_yaml=FIXED)
        await at(space, "1.0.1")
        first = await space.get(CONFIG_MAP, "fixed")
        await space.world.apply({**values, "data": {"values.yaml": "colour: blue"}})
        immutable = await space.refused(HELM_RELEASE, saying="immutable")
        await offer(space, server, "1.0.2")
        await at(space, "1.0.2")

    assert condition(missing, "Ready")["reason"] == "ValuesError"
    assert condition(unserved, "Ready")["reason"] == "InstallFailed"
    assert before == []
    assert first["data"] == {"colour": "green"}
    assert condition(immutable, "Ready")["reason"] == "UpgradeFailed"
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "fixed")
    assert (await settings(space))["colour"] == "blue"
