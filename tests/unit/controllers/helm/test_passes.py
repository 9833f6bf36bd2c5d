"""Passes over a HelmRelease, from nothing to healthy, and to another version."""

from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from controllers.helm.deciding import charttemplate
from crds.source_helm import HelmChart
from tests.fakes.helmworld import DIGEST, INSTALLED, VERSION, World, installed
from toolkit.errors import TransientError, WaitingError
from toolkit.objects import ObjectKey


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_release_is_installed_and_then_awaited_without_a_worker(world: World) -> None:
    outcome = await world.ready("spec")

    running = "Running 'install' action with timeout of 5m0s"
    assert (outcome.ready, outcome.reason, outcome.message) == ("Unknown", "Progressing", running)
    assert world.condition("Ready") == ("Unknown", "Progressing", running)
    assert world.condition("Released") == ("Unknown", "Progressing", running)
    assert world.helm.done == ["install"]
    assert world.helm.reads == 0
    assert [each.version for each in world.obj.status.history] == [1]
    assert world.events == []


async def test_healthy_objects_conclude_the_installation(world: World) -> None:
    await world.ready("spec")

    world.object_is("Current")
    assert world.woken == ["team/app health"]
    outcome = await world.ready("health")

    status = world.obj.status
    assert (outcome.ready, outcome.requeue_after) == ("True", 300)
    assert world.condition("Ready") == ("True", "InstallSucceeded", INSTALLED)
    assert world.condition("Released") == ("True", "InstallSucceeded", INSTALLED)
    assert world.condition("Reconciling") == ("", "", "")
    assert world.told == [f"info InstallSucceeded: {INSTALLED}"]
    assert world.helm.done == ["install"]
    assert world.helm.reads == 0
    assert status.last_applied_revision == status.last_attempted_revision == VERSION
    assert status.last_attempted_revision_digest == DIGEST
    assert (status.last_attempted_release_action, status.storage_namespace) == ("install", "team")
    assert status.history[0].status == "deployed"
    assert status.history[0].oci_digest == DIGEST
    assert status.inventory
    assert [each.id for each in status.inventory.entries] == ["team_web_apps_Deployment"]
    assert status.observed_generation == 1


async def test_schema_that_is_not_read_is_told_until_a_release_needs_none(world: World) -> None:
    world.helm.unchecked = (
        'values.schema.json of chart "shop" refers to "https://host.example/s"',
    )
    await world.ready("spec")
    world.object_is("Current")
    await world.ready("health")

    status, reason, message = world.condition("ValuesValidated")
    assert (status, reason) == ("False", "SchemaNotRead")
    assert message.startswith(world.helm.unchecked[0])
    assert world.condition("Ready")[0] == "True"
    assert f"info SchemaNotRead: {message}" in world.told

    world.helm.unchecked = ()
    world.spec(values={"a": 2})
    await world.ready("spec")

    assert world.condition("ValuesValidated") == ("", "", "")


async def test_helmchart_is_given_a_moment_before_the_status_tells_of_it(tmp_path: Path) -> None:
    chart = {"spec": {"chart": "shop", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}}
    world = World(tmp_path, chart=chart, chartRef=None)

    first = await world.run("spec")
    written = world.obj.status.conditions
    shown = msgspec.convert(charttemplate.desired(world.obj), HelmChart)
    world.objects["HelmChart", ObjectKey("team", "team-app")] = shown
    second = await world.run("dependency")

    assert isinstance(first, WaitingError)
    assert first.retry_after == 1
    assert not written
    assert isinstance(second, WaitingError)
    assert "HelmChart 'team/team-app' is not ready" in world.condition("Ready")[2]
    assert world.obj.status.helm_chart == "team/team-app"
    assert world.api.requests == ["apply HelmChart helm-controller"]


async def test_interval_without_changes_does_nothing(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    before, sent = world.obj.status, len(world.api.requests)

    outcome = await world.ready("interval")

    assert outcome.requeue_after == 300
    assert world.helm.orders == []
    assert len(world.api.requests) == sent
    assert world.obj.status == before
    assert world.events == []


async def test_requested_pass_without_changes_runs_no_action(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.ask(requestedAt="1")

    await world.ready("requested", "spec")

    assert world.helm.orders == []
    assert world.obj.status.last_handled_reconcile_at == "1"


async def test_new_version_of_the_chart_is_an_upgrade(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.source("1.1.0", "sha256:" + "b" * 64)

    await world.ready("source")
    assert world.condition("Ready")[:2] == ("Unknown", "Progressing")
    world.object_is("Current")
    await world.ready("health")

    assert world.helm.done == ["upgrade"]
    assert [(each.version, each.status) for each in world.obj.status.history] == [
        (2, "deployed"),
        (1, "superseded"),
    ]
    assert world.condition("Ready")[:2] == ("True", "UpgradeSucceeded")
    assert world.obj.status.last_applied_revision == "1.1.0+bbbbbbbbbbbb"


async def test_other_values_are_an_upgrade(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.spec(values={"replicas": 2})

    await world.ready("spec")

    assert world.helm.done == ["upgrade"]
    assert world.helm.orders[-1].values == {"replicas": 2}


async def test_change_that_releases_nothing_new_is_observed_without_an_action(
    tmp_path: Path,
) -> None:
    world = await installed(tmp_path)
    world.spec(interval="7m")

    outcome = await world.ready("spec")

    assert outcome.requeue_after == 420
    assert world.helm.done == []
    assert world.obj.status.observed_generation == 2


async def test_other_post_renderers_are_an_upgrade_and_only_one(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.spec(postRenderers=[{"kustomize": {"images": [{"name": "a", "newTag": "2"}]}}])

    await world.ready("spec")
    world.object_is("Current")
    await world.ready("health")

    assert world.helm.done == ["upgrade"]
    assert world.condition("Ready")[0] == "True"


async def test_new_revision_ends_the_wait_for_the_old_one(world: World) -> None:
    await world.ready("spec")
    world.source("1.1.0", "sha256:" + "b" * 64)

    await world.ready("source")
    world.object_is("Current")
    await world.ready("health")

    assert world.helm.done == ["install", "upgrade"]
    assert world.condition("Ready")[:2] == ("True", "UpgradeSucceeded")
    assert world.obj.status.failures == 0


async def test_wait_goes_on_in_another_process(world: World) -> None:
    await world.ready("spec")
    world.start()
    world.shows_records()

    first = await world.ready("start")
    world.object_is("Current")
    second = await world.ready("health")

    assert (first.ready, second.ready) == ("Unknown", "True")
    assert world.helm.done == ["install"]
    assert world.condition("Ready") == ("True", "InstallSucceeded", INSTALLED)


async def test_wait_shows_nothing_of_objects_that_the_account_may_not_read(world: World) -> None:
    await world.ready("spec")
    world.start()
    world.shows_records()
    world.api.forbidden.add("web")

    refused = await world.run("start")
    world.object_is("Current")
    again = await world.run("retry")

    assert isinstance(refused, TransientError)
    assert isinstance(again, TransientError)
    assert "Deployment web is forbidden" in world.condition("Ready")[2]
    assert world.clusters.local.live.watched == frozenset()

    world.api.forbidden.clear()
    world.api.finalizing.add("web")
    await world.ready("retry")
    world.object_is("Current")
    assert (await world.ready("health")).ready == "True"


async def test_definition_that_was_skipped_is_not_awaited_by_another_process(world: World) -> None:
    await world.ready("spec")
    world.start()
    world.shows_records()
    # the record has the chart, and with it what an action with `crds: Skip` did not apply
    definition = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "shops.example.com")
    world.helm.kinds = (*world.helm.kinds, definition)

    await world.ready("start")
    world.object_is("Current")

    assert (await world.ready("health")).ready == "True"


async def test_process_that_starts_reads_storage_and_does_nothing_else(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.start()
    world.shows_records()

    await world.ready("start")

    assert world.helm.done == []
    assert world.helm.reads == 1
    assert world.condition("Ready")[0] == "True"


async def test_release_with_waiting_disabled_is_ready_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, install={"disableWait": True})

    outcome = await world.ready("spec")

    assert outcome.ready == "True"
    assert world.condition("Ready")[:2] == ("True", "InstallSucceeded")


async def test_conditions_that_were_lost_are_told_again(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.obj = structs.replace(world.obj, status=structs.replace(world.obj.status, conditions=[]))

    await world.ready("interval")

    assert world.condition("Ready") == ("True", "InstallSucceeded", INSTALLED)
    assert world.helm.orders == []


async def test_force_upgrades_once(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.ask(requestedAt="1", forceAt="1")

    await world.ready("requested")
    world.object_is("Current")
    await world.ready("health")
    await world.ready("interval")

    assert world.helm.done == ["upgrade"]
    assert world.obj.status.last_handled_force_at == "1"


async def test_tests_run_after_the_objects_are_ready(tmp_path: Path) -> None:
    world = World(tmp_path, test={"enable": True})
    world.helm.tests = {"smoke": "Succeeded"}

    await world.ready("spec")
    assert world.helm.done == ["install"]
    world.object_is("Current")
    await world.ready("health")

    assert world.helm.done == ["install", "test"]
    assert world.condition("TestSuccess")[:2] == ("True", "TestSucceeded")
    assert world.condition("Ready")[:2] == ("True", "TestSucceeded")
    hooks = world.obj.status.history[0].test_hooks
    assert hooks
    assert hooks["smoke"].phase == "Succeeded"


async def test_release_of_somebody_else_is_taken_over_by_an_upgrade(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.changes_storage()

    await world.ready("storage")

    assert world.helm.done == ["upgrade"]


async def test_an_event_tells_what_an_installation_created(tmp_path: Path) -> None:
    world = World(tmp_path)

    await world.ready("spec")
    world.object_is("Current")
    await world.ready("health")

    (event,) = world.events
    assert event.metadata["changes"] == "1 created: Deployment/team/web"


async def test_an_event_tells_what_an_upgrade_changed(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.helm.kinds = (("apps/v1", "Deployment", "web"), ("v1", "Service", "web"))
    world.helm.fields = {"spec": {"replicas": 2}}
    world.source("1.1.0", "sha256:" + "b" * 64)

    await world.ready("source")
    world.object_is("Current")
    await world.ready("health")
    told = [each.metadata.get("changes") for each in world.events]
    world.events.clear()
    world.helm.kinds = (("v1", "Service", "web"),)
    world.source("1.2.0", "sha256:" + "c" * 64)
    await world.ready("source")
    world.object_is("Current")
    await world.ready("health")

    assert told == ["1 created, 1 configured: Service/team/web, Deployment/team/web"]
    assert [each.metadata.get("changes") for each in world.events] == [
        "1 deleted: Deployment/team/web"
    ]


async def test_changes_are_told_by_a_process_that_did_not_see_the_release_before(
    tmp_path: Path,
) -> None:
    world = await installed(tmp_path)
    world.start()
    world.helm.fields = {"spec": {"replicas": 2}}
    world.source("1.1.0", "sha256:" + "b" * 64)

    await world.ready("source")
    world.object_is("Current")
    await world.ready("health")

    assert [each.metadata.get("changes") for each in world.events] == [
        "1 configured: Deployment/team/web"
    ]
