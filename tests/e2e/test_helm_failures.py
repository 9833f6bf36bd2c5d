"""HelmReleases whose process is killed: in the middle of an action, and in the middle of a wait."""

import pytest

from tests.e2e.conftest import CONFIG_MAP, SECRET, Space, condition
from tests.e2e.helmreleases import HELM_RELEASE, at, records, release, served, shop
from tests.e2e.helmsources import HELM_REPOSITORY, repository
from tests.tools.waiting import until
from toolkit.objects import Json, dig

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]

ENDLESS = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-endless
  annotations: {helm.sh/hook: pre-install}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.example/job:1"}]
"""


async def statuses(space: Space) -> list[str]:
    """Return the statuses of Helm's records."""
    found = await space.world.api.list(SECRET, space.namespace, label_selector="owner=helm")
    return sorted(each["metadata"]["labels"]["status"] for each in found)


async def test_action_that_was_killed_is_unlocked_and_a_correction_is_released(
    space: Space,
) -> None:
    async def pending() -> bool:
        return await statuses(space) == ["pending-install"]

    async with served(space) as server:
        server.add("shop", "1.0.0", files=shop("1.0.0", **{"templates__endless.yaml": ENDLESS}))
        await space.world.apply(repository(space, server.url), release(space))
        await until(pending)
        server.add("shop", "1.0.1", files=shop("1.0.1"))

        await space.world.kill_leader("helm")
        await space.request(HELM_REPOSITORY, "charts")
        await at(space, "1.0.1")

    assert "deployed" in await statuses(space)
    assert "pending-install" not in await statuses(space)


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
