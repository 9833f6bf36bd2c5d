"""What stays although a release no longer has it: what others own, and what was there before."""

import pytest

from tests.contract.helm.world import CONFIG_MAP, Refusing, World, statuses
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECOND = CONFIG_MAP.replace("{{ .Release.Name }}", "second")
EXTRA = CONFIG_MAP.replace("{{ .Release.Name }}", "extra")
REFUSED = "apiVersion: v1\nkind: Service\nmetadata: {name: zz}\nspec: {ports: [{port: 99999}]}\n"
ADOPTING: Json = {"takeOwnership": True, "forceConflicts": True, "serverSideApply": "true"}
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: extra}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def mark(world: World, plural: str, metadata: Json) -> None:
    where = f"/api/v1/namespaces/{world.namespace}/{plural}/extra"
    content = "application/merge-patch+json"
    world.administrator.send("PATCH", where, {"metadata": metadata}, content=content)


@pytest.mark.parametrize("on_server", ["true", "false"])
@pytest.mark.parametrize(
    ("plural", "template"), [("configmaps", EXTRA), ("persistentvolumeclaims", CLAIM)]
)
async def test_upgrade_leaves_what_another_release_took_since(
    world: World, plural: str, template: str, on_server: str
) -> None:
    how: Json = {"serverSideApply": on_server}
    await world.run("install", world.chart(templates__extra_yaml=template), **how)
    mark(world, plural, {"annotations": {"meta.helm.sh/release-name": "other"}})

    await world.run("upgrade", world.chart("1.1.0"), **how)

    assert world.get(f"api/v1 {plural}/extra") is not None


async def test_upgrade_deletes_what_the_release_still_owns(world: World) -> None:
    await world.run("install", world.chart(templates__extra_yaml=EXTRA))

    await world.run("upgrade", world.chart("1.1.0"))

    assert world.config_map("extra") is None


async def test_rollback_leaves_what_another_release_took_since(world: World) -> None:
    await world.run("install", world.chart())
    await world.run("upgrade", world.chart("1.1.0", templates__extra_yaml=EXTRA))
    mark(world, "configmaps", {"annotations": {"meta.helm.sh/release-namespace": "other"}})

    await world.run("rollback", version=1)

    assert world.config_map("extra") is not None


def theirs(world: World) -> str:
    """Create the object that the chart is going to take over; return its UID."""
    body: Json = {"metadata": {"name": "extra"}, "data": {"colour": "white", "other": "x"}}
    made = world.make("api/v1 configmaps?fieldManager=kubectl-create", body)
    return str(made["metadata"]["uid"])


@pytest.mark.parametrize("on_server", ["true", "false"])
async def test_failed_installation_leaves_what_was_there_before(
    world: World, on_server: str
) -> None:
    uid = theirs(world)
    chart = world.chart(templates__extra_yaml=EXTRA, templates__zz_yaml=REFUSED)
    how = ADOPTING | {"serverSideApply": on_server, "forceConflicts": on_server == "true"}
    error = await world.fails("install", chart, **how)
    assert statuses(error.outcome) == [(1, "failed")]

    await world.run("uninstall")

    found = world.config_map("extra")
    assert found is not None
    assert found["metadata"]["uid"] == uid
    assert found["data"]["other"] == "x"
    assert world.config_map() is None
    assert await world.history() == []


async def test_failed_installation_deletes_what_it_made_although_it_was_seen(world: World) -> None:
    chart = world.chart(templates__extra_yaml=EXTRA, templates__zz_yaml=REFUSED)
    await world.fails("install", chart, **ADOPTING)
    meta = (world.config_map("extra") or {})["metadata"]
    told = {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion")}

    await world.run("uninstall", seen=[{"group": "", "kind": "ConfigMap", **told}])

    assert world.config_map("extra") is None


async def test_release_that_succeeded_owns_what_it_took(world: World) -> None:
    theirs(world)
    await world.run("install", world.chart(templates__extra_yaml=EXTRA), **ADOPTING)

    await world.run("uninstall")

    assert world.config_map("extra") is None


async def test_rollback_of_a_failed_upgrade_leaves_what_was_there_before(world: World) -> None:
    await world.run("install", world.chart())
    theirs(world)
    mine = CONFIG_MAP.replace("{{ .Release.Name }}", "mine")
    chart = world.chart(
        "1.1.0", templates__extra_yaml=EXTRA, templates__mine_yaml=mine, templates__zz_yaml=REFUSED
    )
    await world.fails("upgrade", chart, **ADOPTING)
    assert world.config_map("mine") is not None

    await world.run("rollback", version=1)

    assert world.config_map("extra") is not None
    assert world.config_map("mine") is None


@pytest.mark.parametrize("status", [403, 503])
async def test_object_that_cannot_be_read_is_not_left_in_silence(world: World, status: int) -> None:
    """Helm leaves what it cannot read, and forgets it."""

    def blind(name: str) -> World:
        return world.with_(acting=Refusing(world.api, "GET", f"configmaps/{name}", status))

    await world.run("install", world.chart(templates__second_yaml=SECOND))

    upgraded = await blind("second").fails("upgrade", world.chart())
    await world.run("upgrade", world.chart())
    second = world.config_map("second")
    uninstalled = await blind("app").fails("uninstall")
    left = await world.history()
    await world.run("uninstall")

    told = "is to be deleted and cannot be read: the server is shutting down"
    assert f"/configmaps/second {told}" in str(upgraded)
    assert second is None
    assert f"/configmaps/app {told}" in str(uninstalled)
    assert left[0] == (3, "uninstalling")
    assert world.config_map() is None
    assert await world.history() == []
