"""Plans of HelmReleases: from their controller, through the window, by the command."""

import json

import pytest

from tests.e2e.conftest import CONFIG_MAP, Space
from tests.e2e.helmreleases import HELM_RELEASE, at, records, release, served, shop
from tests.e2e.helmsources import HELM_CHART, HELM_REPOSITORY
from tests.e2e.plans import ask, diff, reader
from tests.e2e.window import Window
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOOK = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}
"""
INVENTORY = "helmrelease:app"
IMAGE = 'spec.template.spec.containers[name=app].image: "registry.example/shop:{}"'


async def test_plan_of_a_release_comes_from_its_controller_and_writes_nothing(space: Space) -> None:
    given: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "given", "namespace": space.namespace},
        "stringData": {"colour": "secret-colour"},
    }
    values = [{"kind": "Secret", "name": "given", "valuesKey": "colour", "targetPath": "colour"}]
    async with served(space, "1.0.0") as server:
        await space.world.apply(given, release(space))
        await at(space, "1.0.0")
        await Window(space).until(lambda _: True, name=INVENTORY)
        same = await diff(space, "helmrelease", "app")
        changed = {"spec": {"suspend": True, "valuesFrom": values}}
        release_of = (HELM_RELEASE, "app", space.namespace)
        await space.world.api.patch(*release_of, changed, strategy="merge")
        server.add("shop", "1.1.0", files=shop("1.1.0", templates__migrate_yaml=HOOK))
        await space.request(HELM_REPOSITORY, "charts")
        name = f"{space.namespace}-app"
        await space.world.until(HELM_CHART, space.namespace, name, fetched)
        before = await records(space), await space.get(CONFIG_MAP, "app")

        answer = await ask(space, await reader(space, inventory=INVENTORY), component="helm")
        differs = await diff(space, "hr", "app")
        shown = await diff(space, "inventory", INVENTORY, "-o", "json")
        back = await diff(space, "hr", "app", "--revision", "1.0.0")

    assert (same.code, same.out) == (0, "")
    assert answer.status == 200, answer.body
    plan = json.loads(shown.out)
    assert (plan["changes"], plan["hooks"]) == (answer.body["changes"], answer.body["hooks"])
    assert (plan["revision"], plan["unchanged"]) == ("1.1.0", 0)
    assert (differs.code, differs.out.splitlines()) == (
        1,
        [
            f"► ConfigMap/{space.namespace}/app drifted",
            "  ~ data.colour: *** (before) → *** (after)",
            "  ~ data.version: *** (before) → *** (after)",
            f"► Deployment/{space.namespace}/app drifted",
            f"  ~ {IMAGE.format('1.0.0')} → {IMAGE.format('1.1.0').partition(' ')[2]}",
            "► ConfigMap/migrate is a hook (pre-upgrade): it would run, and has not",
        ],
    )
    assert (back.code, "Deployment" in back.out, "data.colour" in back.out) == (1, False, True)
    assert (await records(space), await space.get(CONFIG_MAP, "app")) == before
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "migrate")
    assert "secret-colour" not in space.world.stack.log("helm").read_text()


async def test_right_to_plan_a_kustomization_plans_no_release(space: Space) -> None:
    async with served(space, "1.0.0"):
        await space.world.apply(release(space))
        await at(space, "1.0.0")

        theirs = await ask(space, await reader(space, inventory="app"), component="helm")

    assert (theirs.status, theirs.body["reason"]) == (403, "AccessDenied")


def fetched(obj: Json) -> bool:
    return bool(dig(obj, "status", "artifact", "revision") == "1.1.0")
