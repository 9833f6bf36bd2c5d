"""The life of a release: installed, upgraded, rolled back, uninstalled, and its records."""

import pytest

from tests.contract.helm.world import CONFIG_MAP, MANAGER, Noting, World, statuses
from tests.tools import namespaces
from toolkit.release import record

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_release_lives_and_goes(world: World) -> None:
    installed = await world.run("install", world.chart(), values={"colour": "blue"})

    assert statuses(installed) == [(1, "deployed")]
    assert world.colour() == "blue"
    assert [each["metadata"]["namespace"] for each in installed.objects] == [world.namespace]
    assert installed.records[0].values == {"colour": "blue"}

    upgraded = await world.run("upgrade", world.chart("1.1.0"), values={"colour": "green"})

    assert statuses(upgraded) == [(2, "deployed"), (1, "superseded")]
    assert upgraded.records[0].metadata.version == "1.1.0"
    assert world.colour() == "green"

    back = await world.run("rollback", version=1)

    assert statuses(back) == [(3, "deployed"), (2, "superseded")]
    assert world.colour() == "blue"
    assert await world.history() == [(3, "deployed"), (2, "superseded"), (1, "superseded")]

    gone = await world.run("uninstall")

    assert statuses(gone) == [(3, "uninstalled")]
    assert world.config_map() is None
    assert await world.history() == []
    assert len(gone.log) == 10


async def test_records_have_the_digest_of_what_is_stored(world: World) -> None:
    installed = await world.run("install", world.chart(), values={"colour": "<blue>"})

    (stored,) = (await world.run("history")).records

    assert record.digest_of(stored) == record.digest_of(installed.records[0])


async def test_chart_is_told_without_a_cluster(world: World) -> None:
    chart = (await world.run("load", world.chart("1.2.3"))).chart

    assert chart is not None
    assert (chart.name, chart.version, chart.values) == ("shop", "1.2.3", {"colour": "red"})


async def test_version_of_the_chart_is_that_of_the_order(world: World) -> None:
    installed = await world.run("install", world.chart(), chartVersion="1.0.0+abc")

    assert installed.records[0].metadata.version == "1.0.0+abc"


async def test_rendering_changes_nothing(world: World) -> None:
    rendered = await world.run("render", world.chart(), values={"colour": "blue"})

    assert [each["data"] for each in rendered.objects] == [{"colour": "blue"}]
    assert world.config_map() is None
    assert await world.history() == []


async def test_records_are_kept_in_the_storage_namespace(world: World) -> None:
    storage = namespaces.create_blocking(world.administrator)
    apart = world.with_(storage_namespace=storage)
    await apart.run("install", apart.chart())

    assert await apart.history() == [(1, "deployed")]
    assert await world.history() == []
    assert world.colour() == "red"


async def test_old_records_go_when_there_are_too_many(world: World) -> None:
    await world.run("install", world.chart())
    for colour in ("blue", "green", "black"):
        await world.run("upgrade", world.chart(), values={"colour": colour}, maxHistory=2)

    assert await world.history() == [(4, "deployed"), (3, "superseded")]


async def test_history_is_kept_if_wanted(world: World) -> None:
    await world.run("install", world.chart())

    gone = await world.run("uninstall", keepHistory=True)

    assert statuses(gone) == [(1, "uninstalled")]
    assert await world.history() == [(1, "uninstalled")]
    assert statuses(await world.run("install", world.chart(), replace=True))[0] == (2, "deployed")


async def test_release_that_never_became_ready_is_marked_as_failed(world: World) -> None:
    await world.run("install", world.chart())
    await world.run("upgrade", world.chart(), values={"colour": "blue"})

    failed = await world.run("fail", description='Upgrade "app" failed: not ready')

    # Helm marks the release before as superseded only once the objects are ready.
    assert statuses(failed) == [(2, "failed"), (1, "deployed")]
    assert failed.records[0].info.description == 'Upgrade "app" failed: not ready'
    after = await world.run("upgrade", world.chart(), values={"colour": "green"})
    assert statuses(after) == [(3, "deployed"), (1, "superseded")]


async def test_missing_release_is_told_apart(world: World) -> None:
    chart = world.chart()
    for action in ("upgrade", "rollback", "uninstall", "unlock", "fail"):
        error = await world.fails(action, chart if action == "upgrade" else None)
        assert error.code == "ReleaseNotFound", action
        assert error.outcome.records == ()


async def test_release_in_the_way_is_not_overwritten(world: World) -> None:
    await world.run("install", world.chart())

    error = await world.fails("install", world.chart(), values={"colour": "blue"})

    assert error.code == "Conflict"
    assert world.colour() == "red"


async def test_objects_of_others_are_taken_over_only_if_allowed(world: World) -> None:
    world.make("api/v1 configmaps", {"metadata": {"name": "app"}, "data": {"colour": "white"}})

    error = await world.fails("install", world.chart())

    assert error.code == "Conflict"
    assert world.colour() == "white"
    await world.run("install", world.chart(), takeOwnership=True, forceConflicts=True)
    assert world.colour() == "red"


async def test_objects_are_applied_as_those_of_the_release_were(world: World) -> None:
    await world.run("install", world.chart(), serverSideApply="false")

    await world.run(
        "upgrade",
        world.chart(),
        values={"colour": "blue"},
        serverSideApply="auto",
        forceConflicts=True,
    )

    found = world.config_map()
    assert found is not None
    managers = {each["operation"] for each in found["metadata"]["managedFields"]}
    assert managers == {"Update"}
    assert found["data"] == {"colour": "blue"}


async def test_objects_that_a_client_applied_can_be_applied_on_the_server(world: World) -> None:
    await world.run("install", world.chart(), serverSideApply="false")

    await world.run(
        "upgrade",
        world.chart(),
        values={"colour": "blue"},
        serverSideApply="true",
        forceConflicts=True,
    )

    found = world.config_map()
    assert found is not None
    managers = [(each["manager"], each["operation"]) for each in found["metadata"]["managedFields"]]
    assert managers == [(MANAGER, "Apply")]
    assert found["data"] == {"colour": "blue"}


async def test_upgrade_asks_for_no_object_that_it_applies_anyway(world: World) -> None:
    second = CONFIG_MAP.replace("name: {{ .Release.Name }}", "name: new")
    await world.run("install", world.chart(), serverSideApply="true")
    world.administrator.send(
        "DELETE", f"/api/v1/namespaces/{world.namespace}/configmaps/app", body={}
    )
    noting = Noting(world.api)

    upgraded = await world.with_(acting=noting).run(
        "upgrade",
        world.chart(templates__new_yaml=second),
        values={"colour": "blue"},
        serverSideApply="true",
    )
    await world.with_(acting=noting).run("rollback", version=1)

    assert statuses(upgraded) == [(2, "deployed"), (1, "superseded")]
    writes = [each for each in noting.asked if each.endswith((" app", " new"))]
    # The upgrade makes what is new only after a look; the rollback deletes it.
    assert writes == [
        *("GET new", "PATCH app", "GET new", "PATCH new"),
        *("PATCH app", "GET new", "DELETE new"),
    ]
    assert world.colour() == "red"
    assert world.config_map("new") is None


async def test_objects_are_told_where_they_are(world: World) -> None:
    role = """\
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  metadata: {name: {{ .Release.Namespace }}-app, namespace: misleading}
- apiVersion: v1
  kind: Secret
  metadata: {name: app}
"""
    chart = world.chart(templates__list_yaml=role, templates__configmap_yaml=CONFIG_MAP)

    rendered = await world.run("render", chart)

    places = {each["kind"]: each["metadata"].get("namespace") for each in rendered.objects}
    expected = {"ClusterRole": None, "Secret": world.namespace, "ConfigMap": world.namespace}
    assert places == expected
