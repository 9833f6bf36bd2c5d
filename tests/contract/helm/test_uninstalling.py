"""What an uninstallation asks the API server for, and what it leaves alone."""

from typing import Any

import pytest

from tests.contract.helm.world import WRITES, Noting, World, hook, statuses
from tests.tools import rights
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

RECORD = "sh.helm.release.v1.app.v1"
TENANT = "system:serviceaccount:tenants:keeper"


def seen(world: World, **changes: Any) -> Json:
    """Return the option by which the release's ConfigMap was seen as it is now."""
    found = world.config_map()
    assert found is not None
    meta = found["metadata"]
    told = {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"seen": [{"group": "", "kind": "ConfigMap", **told, **changes}]}


def change(world: World, body: Json) -> None:
    """Change the release's ConfigMap, as somebody else would."""
    where = f"/api/v1/namespaces/{world.namespace}/configmaps/app"
    world.administrator.send("PATCH", where, body, content="application/merge-patch+json")


async def test_object_that_was_seen_is_not_read(world: World) -> None:
    await world.run("install", world.chart())
    acting, keeping = Noting(world.api), Noting(world.api)

    gone = await world.with_(acting=acting, keeping=keeping).run("uninstall", **seen(world))

    assert statuses(gone) == [(1, "uninstalled")]
    assert acting.asked == ["DELETE app"]
    assert keeping.asked == ["GET secrets", f"DELETE {RECORD}"]
    assert world.config_map() is None
    assert await world.history() == []


async def test_object_that_was_not_seen_is_read(world: World) -> None:
    await world.run("install", world.chart())
    acting = Noting(world.api)

    await world.with_(acting=acting).run("uninstall", **seen(world, kind="Secret"))

    assert acting.asked == ["GET app", "DELETE app"]
    assert world.config_map() is None


async def test_object_that_changed_since_is_read_and_deleted(world: World) -> None:
    await world.run("install", world.chart())
    before, acting = seen(world), Noting(world.api)
    change(world, {"data": {"other": "x"}})

    await world.with_(acting=acting).run("uninstall", **before)

    assert acting.asked == ["DELETE app", "GET app", "DELETE app"]
    assert world.config_map() is None


@pytest.mark.parametrize(
    "marks",
    [
        {"annotations": {"meta.helm.sh/release-name": "other"}},
        {"annotations": {"meta.helm.sh/release-namespace": "other"}},
        {"annotations": {"meta.helm.sh/release-name": None}},
        {"labels": {"app.kubernetes.io/managed-by": "somebody"}},
    ],
)
async def test_object_that_another_release_took_since_stays(world: World, marks: Json) -> None:
    await world.run("install", world.chart())
    before, acting = seen(world), Noting(world.api)
    change(world, {"metadata": marks})

    await world.with_(acting=acting).run("uninstall", **before)

    assert acting.asked == ["DELETE app", "GET app"]
    assert world.config_map() is not None
    assert await world.history() == []


async def test_object_that_was_made_anew_since_stays(world: World) -> None:
    await world.run("install", world.chart())
    before = seen(world)
    where = f"/api/v1/namespaces/{world.namespace}/configmaps/app"
    world.administrator.send("DELETE", where, body={})
    world.make("api/v1 configmaps", {"metadata": {"name": "app"}})

    await world.run("uninstall", **before)

    assert world.config_map() is not None


async def test_object_that_is_gone_already_holds_nothing_up(world: World) -> None:
    await world.run("install", world.chart())
    before = seen(world)
    where = f"/api/v1/namespaces/{world.namespace}/configmaps/app"
    world.administrator.send("DELETE", where, body={})

    gone = await world.run("uninstall", **before)

    assert statuses(gone) == [(1, "uninstalled")]
    assert await world.history() == []


async def test_record_says_that_it_goes_while_hooks_run(world: World) -> None:
    await world.run("install", world.chart(templates__hook_yaml=hook("bye", "post-delete")))
    keeping = Noting(world.api)

    await world.with_(keeping=keeping).run("uninstall")

    assert keeping.asked[:2] == ["GET secrets", f"PUT {RECORD}"]


async def test_hooks_that_are_not_to_run_do_not_count(world: World) -> None:
    await world.run("install", world.chart(templates__hook_yaml=hook("bye", "post-delete")))
    keeping = Noting(world.api)

    await world.with_(keeping=keeping).run("uninstall", disableHooks=True)

    assert keeping.asked == ["GET secrets", f"DELETE {RECORD}"]


async def test_record_says_that_it_goes_if_a_deletion_is_refused(world: World) -> None:
    await world.run("install", world.chart())
    group = "rbac.authorization.k8s.io"
    world.make(
        f"apis/{group}/v1 rolebindings",
        {
            "metadata": {"name": "keeper"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": TENANT, "apiGroup": group}],
        },
    )
    await rights.noticed(world.api, TENANT, WRITES | {"verbs": ["get"]}, namespace=world.namespace)
    tenant = world.with_(acting=world.api.impersonating(TENANT))

    error = await tenant.fails("uninstall", **seen(world))

    assert "forbidden" in str(error)
    assert world.config_map() is not None
    assert await world.history() == [(1, "uninstalling")]
    assert statuses(await world.run("uninstall")) == [(1, "uninstalled")]
