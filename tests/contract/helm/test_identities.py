"""Who acts: what a chart says is done by the release's account, its records are kept by us."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio

from tests.contract.helm.world import CONFIG_MAP, Refusing, World, statuses
from tests.tools import rights
from toolkit.errors import TransientError
from toolkit.helm.gates import Response
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: other}\n"
CONFIG_MAPS: Json = {
    "apiGroups": [""],
    "resources": ["configmaps"],
    "verbs": ["get", "create", "patch", "delete"],
}


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(world: World) -> World:
    """Give the world in which the release's account may write ConfigMaps of its namespace."""
    user = f"tenant-{world.namespace}"
    group = "apis/rbac.authorization.k8s.io/v1"
    world.make(f"{group} roles", {"metadata": {"name": "app"}, "rules": [CONFIG_MAPS]})
    binding = {
        "metadata": {"name": "app"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "app"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    world.make(f"{group} rolebindings", binding)
    await rights.noticed(world.api, user, CONFIG_MAPS, namespace=world.namespace)
    return world.with_(acting=world.api.impersonating(user))


async def test_account_needs_no_right_to_records(tenant: World) -> None:
    assert statuses(await tenant.run("install", tenant.chart())) == [(1, "deployed")]
    await tenant.run("upgrade", tenant.chart(), values={"colour": "blue"})
    assert tenant.colour() == "blue"
    await tenant.run("uninstall")
    assert tenant.config_map() is None


async def test_chart_can_do_what_its_account_may_and_no_more(tenant: World) -> None:
    error = await tenant.fails("install", tenant.chart(templates__secret_yaml=SECRET))

    assert error.code == "Forbidden"
    assert "secrets" in str(error)
    assert tenant.get("api/v1 secrets/other") is None


async def test_templates_look_up_what_the_account_may_read(tenant: World) -> None:
    tenant.make("api/v1 secrets", {"metadata": {"name": "other"}, "stringData": {"key": "hidden"}})
    stolen = (
        CONFIG_MAP + '  stolen: {{ (lookup "v1" "Secret" .Release.Namespace "other").data.key }}\n'
    )

    error = await tenant.fails("install", tenant.chart(templates__configmap_yaml=stolen))

    assert "forbidden" in str(error)
    assert await tenant.history() == []


async def test_account_that_may_not_look_must_be_able_to_make_the_namespace(tenant: World) -> None:
    error = await tenant.fails("install", tenant.chart(), createNamespace=True)

    assert error.code == "Forbidden"
    assert "namespaces" in str(error)


async def test_namespace_is_not_made_where_nobody_can_tell_whether_it_exists(world: World) -> None:
    acting = Refusing(world.api, "GET", f"/api/v1/namespaces/{world.namespace}")
    blind = world.with_(acting=acting)

    error = await blind.fails("install", blind.chart(), createNamespace=True)

    assert f"cannot tell whether namespace '{world.namespace}' exists" in str(error)
    assert "the server is shutting down" in str(error)
    assert {seen.partition(" ")[0] for seen in acting.seen} == {"GET"}


async def test_refusal_in_the_middle_leaves_a_failed_release(world: World) -> None:
    await world.run("install", world.chart())
    second = CONFIG_MAP.replace("{{ .Release.Name }}", "zz-second")
    chart = world.chart(templates__second_yaml=second)
    broken = world.with_(acting=Refusing(world.api, "PATCH", "zz-second"))

    error = await broken.fails("upgrade", chart, values={"colour": "blue"})

    assert statuses(error.outcome) == [(2, "failed"), (1, "deployed")]
    assert world.colour() == "blue"
    assert "shutting down" in str(error)
    assert statuses(await world.run("upgrade", chart))[0] == (3, "deployed")


async def test_storage_that_refuses_stops_the_action_before_it_begins(world: World) -> None:
    broken = world.with_(keeping=Refusing(world.api, "POST", "/secrets"))

    error = await broken.fails("install", world.chart())

    assert "shutting down" in str(error)
    assert error.outcome.records == ()
    assert world.config_map() is None


async def test_stale_action_is_unlocked(world: World) -> None:
    await world.run("install", world.chart())
    # The worker's last word is lost, as in a crash.
    broken = world.with_(keeping=Refusing(world.api, "PUT", "app.v2"))
    error = await broken.fails("upgrade", world.chart(), values={"colour": "blue"})
    assert statuses(error.outcome) == [(2, "pending-upgrade"), (1, "superseded")]
    assert await world.history() == [(2, "pending-upgrade"), (1, "superseded")]

    assert (await world.fails("upgrade", world.chart())).code == "Locked"
    assert statuses(await world.run("unlock", version=1)) == [(2, "pending-upgrade")]
    assert await world.history() == [(2, "pending-upgrade"), (1, "superseded")]
    unlocked = await world.run("unlock", version=2)

    assert statuses(unlocked) == [(2, "failed")]
    assert unlocked.records[0].info.description == (
        "Release unlocked from stale 'pending-upgrade' state"
    )


async def test_account_that_may_not_keep_records_is_told_so(tenant: World) -> None:
    blind = tenant.with_(keeping=tenant.acting)

    error = await blind.fails("install", blind.chart())

    assert error.code == "RecordsForbidden"
    assert "the records of the release in Helm's storage: " in str(error)
    assert 'cannot create resource "secrets" in API group "" in the namespace' in str(error)
    assert "allow the account to get, list, create, update and delete Secrets there" in str(error)


class Away:
    """An identity whose API server cannot be reached."""

    def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[Response]:
        del method, target, headers, body
        raise TransientError("connection refused")


async def test_errors_name_no_host_that_stands_for_the_api_server(world: World) -> None:
    error = await world.with_(keeping=Away()).fails("install", world.chart())

    assert "connection refused" in str(error)
    assert "http://cluster" not in str(error)
