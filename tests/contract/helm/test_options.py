"""Options of actions that nothing else shows: what they do to objects on a real API server."""

import pytest

from tests.contract.helm.world import CONFIG_MAP, World, statuses
from tests.tools.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEW = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n"
REFUSED = "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 0}]}\n"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: app, image: "registry.example/app:1"}]}
"""


@pytest.mark.parametrize("cleans", [True, False])
async def test_failed_upgrade_leaves_what_it_created_unless_told(
    world: World, *, cleans: bool
) -> None:
    await world.run("install", world.chart())
    chart = world.chart(templates__new_yaml=NEW, templates__refused_yaml=REFUSED)

    error = await world.fails("upgrade", chart, cleanupOnFail=cleans)

    assert statuses(error.outcome)[0] == (2, "failed")
    assert (world.config_map("new") is None) == cleans
    assert world.config_map() is not None


@pytest.mark.parametrize("force", [True, False])
async def test_objects_are_replaced_by_force_alone(world: World, *, force: bool) -> None:
    await world.run("install", world.chart(), serverSideApply="false")
    where = f"/api/v1/namespaces/{world.namespace}/configmaps/app"
    foreign = {"data": {"foreign": "yes"}}
    world.administrator.send("PATCH", where, foreign, content="application/merge-patch+json")

    await world.run(
        "upgrade", world.chart(), values={"colour": "blue"}, serverSideApply="false", force=force
    )

    found = world.config_map()
    assert found is not None
    assert found["data"] == {"colour": "blue"} | ({} if force else foreign["data"])


@pytest.mark.parametrize("how", ["true", "auto"])
async def test_objects_that_were_applied_are_replaced_by_force(world: World, how: str) -> None:
    await world.run("install", world.chart(), serverSideApply="true")

    await world.run(
        "upgrade",
        world.chart(),
        values={"colour": "blue"},
        serverSideApply=how,
        forceConflicts=True,
        force=True,
    )
    upgraded = world.colour()
    await world.run("rollback", version=1, serverSideApply=how, forceConflicts=True, force=True)

    assert upgraded == "blue"
    assert world.colour() == "red"
    assert await world.history() == [(3, "deployed"), (2, "superseded"), (1, "superseded")]


WEB = """\
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ports: [{port: %d}]
"""


@pytest.mark.parametrize(("how", "force"), [("true", True), ("false", True), ("false", False)])
async def test_rollback_of_a_failed_upgrade_changes_objects_that_are_older(
    world: World, how: str, *, force: bool
) -> None:
    conflicts = how == "true"
    works = world.chart(templates__web_yaml=WEB % 80)
    await world.run("install", works, serverSideApply=how, forceConflicts=conflicts)
    fails = world.chart(templates__web_yaml=WEB % 99999)
    error = await world.fails(
        "upgrade",
        fails,
        values={"colour": "blue"},
        serverSideApply=how,
        forceConflicts=conflicts,
    )

    await world.run("rollback", version=1, serverSideApply=how, force=force)

    assert "Invalid value: 99999" in str(error)
    assert world.colour() == "red"
    assert await world.history() == [(3, "deployed"), (2, "failed"), (1, "superseded")]


async def test_values_of_the_last_release_are_kept_if_wanted(world: World) -> None:
    sized = CONFIG_MAP + "  size: {{ .Values.size | default 1 | quote }}\n"
    await world.run("install", world.chart(), values={"colour": "blue"})
    chart = world.chart(templates__configmap_yaml=sized)

    await world.run("upgrade", chart, values={"size": 2}, reuseValues=True)
    kept = world.config_map()
    await world.run("upgrade", chart, values={"size": 2})

    assert kept is not None
    assert kept["data"] == {"colour": "blue", "size": "2"}
    assert world.colour() == "red"


async def test_what_objects_own_outlives_them_if_wanted(world: World) -> None:
    chart = world.chart(templates__configmap_yaml="", templates__app_yaml=DEPLOYMENT)

    def owned() -> list[str]:
        found = world.get("apis/apps/v1 replicasets")
        return [each["metadata"]["name"] for each in found["items"]] if found else []

    await world.run("install", chart)
    before = await until(owned)

    await world.run("uninstall", deletionPropagation="orphan")
    await until(lambda: world.get("apis/apps/v1 deployments/app") is None)

    assert owned() == before
