"""Passes over a HelmRelease that fail: what is told, repaired, and given up."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controllers.helm.running.acting import ActionError
from tests.fakes.helmengine import Failure
from tests.fakes.helmworld import VERSION, World, installed
from tests.fakes.releases import made
from toolkit.errors import StalledError, TransientError, WaitingError
from toolkit.objects import Json


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_objects_that_are_late_fail_the_release(world: World) -> None:
    await world.ready("spec")

    world.pass_time(301)
    assert world.woken == ["team/app health"]
    ended = await world.run("health")

    assert isinstance(ended, StalledError)
    assert world.helm.done == ["install", "fail"]
    assert world.helm.newest().info.status == "failed"
    assert world.obj.status.history[0].status == "failed"
    status, reason, message = world.condition("Released")
    assert (status, reason) == ("False", "InstallFailed")
    assert message.startswith(f"Helm install failed for release team/app with chart shop@{VERSION}")
    assert "resource Deployment/team/web not ready. status: InProgress" in message
    assert message.endswith("context deadline exceeded")
    assert world.condition("Ready")[:2] == ("False", "InstallFailed")
    assert world.condition("Stalled") == (
        "True",
        "RetriesExceeded",
        "Failed to install after 1 attempt(s)",
    )
    assert (world.obj.status.failures, world.obj.status.install_failures) == (1, 1)


async def test_failing_installation_is_uninstalled_and_tried_again(tmp_path: Path) -> None:
    world = World(tmp_path, install={"remediation": {"retries": 1}})
    world.helm.failures["install"] = Failure("hook failed")

    first = await world.run("spec")
    remediated = world.condition("Ready")
    second = await world.run("retry")

    assert isinstance(first, TransientError)
    assert world.helm.done[:2] == ["install", "uninstall"]
    assert remediated[:2] == ("False", "InstallFailed")
    assert remediated[2].startswith("Helm install failed for release team/app with chart")
    assert "Helm uninstall remediation for release team/app.v1" in remediated[2]
    assert isinstance(second, StalledError)
    assert world.helm.done == ["install", "uninstall", "install"]
    assert world.condition("Stalled")[1] == "RetriesExceeded"
    assert world.told[0].startswith("error InstallFailed: Helm install failed for release team/app")
    assert "a line of Helm's" in world.events[0].message


async def test_next_attempt_waits_until_the_objects_of_the_last_are_gone(tmp_path: Path) -> None:
    world = World(tmp_path, install={"remediation": {"retries": 1}})
    world.helm.failures["install"] = Failure("hook failed")
    world.api.finalizing.add("web")

    first = await world.ready("spec")
    second = await world.ready("interval")
    world.api.finalizing.clear()
    third = await world.run("interval")

    assert [first.ready, second.ready] == ["Unknown", "Unknown"]
    assert first.requeue_after == 2
    assert world.helm.done == ["install", "uninstall"]
    assert isinstance(third, TransientError)
    assert world.condition("Remediated")[:2] == ("True", "UninstallSucceeded")


async def test_objects_that_stay_fail_the_uninstallation(tmp_path: Path) -> None:
    world = World(tmp_path, install={"remediation": {"retries": 1}})
    world.helm.failures["install"] = Failure("hook failed")
    world.api.finalizing.add("web")

    await world.ready("spec")
    pending = world.reconciler.memory.of(world.key).pending
    assert pending
    pending.seconds = 0
    await world.run("interval")

    status, reason, message = world.condition("Remediated")
    assert (status, reason) == ("False", "UninstallFailed")
    assert "Deployment/team/web is still there" in message


async def test_failure_without_a_record_is_tried_again_and_counts_no_retry(world: World) -> None:
    world.helm.failures["install"] = Failure("no such template", recorded=False)

    ended = await world.run("spec")

    assert isinstance(ended, TransientError)
    assert world.condition("Ready")[:2] == ("False", "InstallFailed")
    assert (world.obj.status.failures, world.obj.status.install_failures) == (1, 0)
    assert [event.reason for event in world.events] == ["InstallFailed"]

    del world.helm.failures["install"]
    await world.ready("retry")
    assert world.helm.done == ["install", "install"]


async def test_failing_upgrade_is_rolled_back(tmp_path: Path) -> None:
    remediation = {"retries": 0, "remediateLastFailure": True}
    world = await installed(tmp_path, upgrade={"remediation": remediation})
    world.source("1.1.0", "sha256:" + "b" * 64)
    world.helm.failures["upgrade"] = Failure()

    waits = await world.ready("source")
    assert waits.message == "Running 'rollback' action with timeout of 5m0s"
    assert world.condition("Ready")[0] == "Unknown"
    world.object_is("Current")
    ended = await world.run("health")

    assert world.helm.done == ["upgrade", "rollback"]
    assert world.helm.orders[-1].options["version"] == 1
    assert isinstance(ended, StalledError)
    rolled = f"Helm rollback to previous release team/app.v1 with chart shop@{VERSION} succeeded"
    assert world.condition("Remediated") == ("True", "RollbackSucceeded", rolled)
    status, reason, message = world.condition("Ready")
    assert (status, reason) == ("False", "UpgradeFailed")
    assert message.startswith("Helm upgrade failed for release team/app with chart")
    assert message.endswith(f"\n{rolled}")
    newest = world.obj.status.history[0]
    assert (newest.version, newest.action) == (3, "rollback")


async def test_failing_rollback_is_told_and_the_correction_is_still_released(
    tmp_path: Path,
) -> None:
    remediation = {"retries": 0, "remediateLastFailure": True}
    world = await installed(tmp_path, upgrade={"remediation": remediation})
    world.helm.failures |= {"upgrade": Failure(), "rollback": Failure("no such field")}
    world.source("1.1.0", "sha256:" + "b" * 64)

    ended = await world.run("source")
    again = await world.run("requested")
    world.helm.failures.clear()
    world.source("1.2.0", "sha256:" + "c" * 64)
    await world.ready("source")
    world.object_is("Current")
    await world.ready("health")

    assert isinstance(ended, StalledError)
    assert isinstance(again, StalledError)
    assert world.helm.done == ["upgrade", "rollback", "rollback", "upgrade"]
    assert world.condition("Ready")[:2] == ("True", "UpgradeSucceeded")
    assert any("no such field" in event.message for event in world.events)


async def test_values_that_are_corrected_are_tried_although_no_retries_are_left(
    tmp_path: Path,
) -> None:
    world = await installed(tmp_path)
    world.helm.failures["upgrade"] = Failure()
    world.spec(values={"broken": True})
    assert isinstance(await world.run("spec"), StalledError)
    assert isinstance(await world.run("requested"), StalledError)
    assert world.helm.done == ["upgrade"]

    world.helm.failures.clear()
    world.spec(values={"broken": False})
    await world.ready("spec")
    world.object_is("Current")
    await world.ready("health")

    assert world.helm.done == ["upgrade", "upgrade"]
    assert world.condition("Ready")[:2] == ("True", "UpgradeSucceeded")
    assert world.condition("Stalled") == ("", "", "")
    assert (world.obj.status.failures, world.obj.status.upgrade_failures) == (0, 0)


async def test_storage_that_cannot_be_read_is_told_and_tried_again(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.changes_storage()
    world.helm.failures["history"] = Failure("no answer", recorded=False)

    ended = await world.run("storage")
    world.helm.failures["history"] = Failure(FORBIDDEN, recorded=False)
    denied = await world.run("storage")

    assert isinstance(ended, TransientError)
    assert (ended.reason, str(ended)) == (
        "StateError",
        "Could not determine release state: no answer",
    )
    assert isinstance(denied, TransientError)
    assert world.condition("Ready") == (
        "False",
        "AccessDenied",
        f"Could not determine release state: {REMEDY}",
    )


FORBIDDEN = (
    'services is forbidden: User "system:serviceaccount:team:deployer" cannot create resource'
    ' "services" in API group "" in the namespace "team"'
)
REMEDY = (
    f"{FORBIDDEN}: bind a Role in namespace 'team' with the verb 'create' on 'services' to service"
    " account 'team/deployer'"
)
ROLLS_BACK: Json = {"upgrade": {"remediation": {"retries": 1}}}
UNINSTALLS: Json = {"upgrade": {"remediation": {"retries": 1, "strategy": "uninstall"}}}


@pytest.mark.parametrize(
    ("failing", "spec", "condition"),
    [
        (("upgrade",), {}, "Released"),
        (("test",), {"test": {"enable": True}}, "TestSuccess"),
        (("upgrade", "rollback"), ROLLS_BACK, "Remediated"),
        (("upgrade", "uninstall"), UNINSTALLS, "Remediated"),
    ],
)
async def test_action_without_a_right_tells_which(
    tmp_path: Path, failing: tuple[str, ...], spec: Json, condition: str
) -> None:
    world = await installed(tmp_path)
    world.helm.failures |= {action: Failure(FORBIDDEN) for action in failing}
    world.spec(values={"changed": True}, **spec)

    await world.run("spec")
    if world.condition("Ready")[0] == "Unknown":
        world.object_is("Current")
        await world.run("health")

    told = world.condition(condition)
    assert told[:2] == ("False", "AccessDenied")
    assert REMEDY in told[2]
    assert world.condition("Ready")[:2] == ("False", "AccessDenied")
    assert REMEDY in world.condition("Ready")[2]
    assert any(each.startswith("error AccessDenied: ") and REMEDY in each for each in world.told)


async def test_reset_gives_new_attempts(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.helm.failures["upgrade"] = Failure()
    world.spec(values={"x": 1})
    await world.run("spec")
    world.ask(requestedAt="1", resetAt="1")

    await world.run("requested")

    assert world.helm.done == ["upgrade", "upgrade"]
    assert world.obj.status.last_handled_reset_at == "1"


async def test_retry_on_failure_waits_for_its_interval_and_upgrades(tmp_path: Path) -> None:
    world = World(tmp_path, install={"strategy": {"name": "RetryOnFailure", "retryInterval": "1m"}})
    world.helm.failures["install"] = Failure()

    first = await world.run("spec")
    world.helm.failures.clear()
    await world.ready("dependency")

    assert isinstance(first, WaitingError)
    assert first.retry_after == 60
    assert world.condition("Ready")[0] == "Unknown"
    assert world.helm.done == ["install", "upgrade"]


async def test_failing_test_is_a_failure_of_the_release(tmp_path: Path) -> None:
    world = World(tmp_path, test={"enable": True}, install={"disableWait": True})
    world.helm.tests = {"smoke": "Failed"}
    world.helm.failures["test"] = Failure("pod smoke failed")

    ended = await world.run("spec")

    assert isinstance(ended, StalledError)
    assert world.condition("Ready")[:2] == ("False", "TestFailed")
    assert world.obj.status.install_failures == 1


async def test_failing_test_that_is_ignored_leaves_the_release_ready(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        test={"enable": True, "ignoreFailures": True},
        install={"disableWait": True},
    )
    world.helm.tests = {"smoke": "Failed"}
    world.helm.failures["test"] = Failure("pod smoke failed")

    outcome = await world.ready("spec")

    assert outcome.reason == "InstallSucceeded"
    assert world.condition("TestSuccess")[:2] == ("False", "TestFailed")


async def test_action_that_was_never_finished_is_unlocked_and_repaired(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.changes_storage(status="pending-upgrade")

    await world.ready("storage")

    assert world.helm.done == ["unlock", "upgrade"]
    assert any("Unlocked Helm release team/app.v1" in each for each in world.told)


def minutes_ago(minutes: float) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()


@pytest.mark.parametrize("status", ["pending-upgrade", "pending-rollback", "uninstalling"])
async def test_action_of_somebody_else_is_waited_for(tmp_path: Path, status: str) -> None:
    world = await installed(tmp_path)
    world.api.writers["sh.helm.release.v1.app.v1"] = ("Helm", minutes_ago(1))
    world.changes_storage(status=status)

    ended = await world.run("storage")

    assert isinstance(ended, WaitingError)
    assert ended.retry_after == pytest.approx(240, abs=20)
    assert world.helm.done == []
    assert world.condition("Ready")[:2] == ("False", "PendingRelease")
    assert f"team/app.v1 has the status '{status}' since" in world.condition("Ready")[2]
    assert "'Helm' is working on it" in world.condition("Ready")[2]

    world.changes_storage(status="deployed")
    await world.ready("storage")
    assert world.helm.done == ["upgrade"]


async def test_installation_of_somebody_else_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.helm.releases["team", "app"] = [made(status="pending-install")]
    world.api.writers["sh.helm.release.v1.app.v1"] = ("Helm", minutes_ago(0))
    world.shows_records()

    ended = await world.run("spec")

    assert isinstance(ended, WaitingError)
    assert world.helm.done == []


async def test_action_of_somebody_else_is_unlocked_after_the_timeout(tmp_path: Path) -> None:
    world = await installed(tmp_path, upgrade={"timeout": "1m"})
    world.api.writers["sh.helm.release.v1.app.v1"] = ("Helm", minutes_ago(2))
    world.changes_storage(status="pending-upgrade")

    await world.ready("storage")

    assert world.helm.done == ["unlock", "upgrade"]
    assert world.helm.orders[-2].options == {"version": 1}


async def test_action_of_somebody_else_is_unlocked_by_request(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.api.writers["sh.helm.release.v1.app.v1"] = ("Helm", minutes_ago(1))
    world.changes_storage(status="pending-upgrade")
    await world.run("storage")

    world.ask(requestedAt="now", forceAt="now")
    await world.ready("requested")

    assert world.helm.done == ["unlock", "upgrade"]


async def test_action_that_somebody_began_before_the_unlock_is_not_told_as_unlocked(
    tmp_path: Path,
) -> None:
    world = await installed(tmp_path)
    world.changes_storage(status="pending-upgrade")
    world.helm.begins = "pending-upgrade"
    world.api.writers["sh.helm.release.v1.app.v2"] = ("Helm", minutes_ago(0))

    ended = await world.run("storage")

    assert isinstance(ended, WaitingError)
    assert world.helm.done == ["unlock"]
    assert "app.v2 has the status 'pending-upgrade'" in str(ended)
    assert not any("Unlocked" in each for each in world.told)


async def test_worker_that_dies_is_told_and_its_release_repaired(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.helm.failures["upgrade"] = Failure("it needed more memory than allowed", code="died")
    world.spec(values={"a": 1})

    ended = await world.run("spec")
    status = world.condition("Ready")
    world.helm.failures.clear()
    world.helm.leave_pending()
    await world.ready("retry")

    assert isinstance(ended, TransientError)
    assert status[:2] == ("False", "UpgradeFailed")
    assert "it needed more memory than allowed" in status[2]
    assert world.helm.done == ["upgrade", "unlock", "upgrade"]


async def test_missing_source_is_waited_for(world: World) -> None:
    world.objects.clear()

    ended = await world.run("spec")

    assert isinstance(ended, WaitingError)
    assert ended.reason == "ArtifactFailed"
    assert world.helm.orders == []


async def test_namespace_that_requires_an_account_has_nothing_done_without_one(
    world: World,
) -> None:
    world.namespaces["team"] = {"policy.penstock.dev/require-service-account": "true"}

    ended = await world.run("spec")

    assert isinstance(ended, StalledError)
    assert "spec.serviceAccountName must be set" in str(ended)
    assert world.helm.orders == []


KEYS = {"provider": "sops", "secretRef": {"name": "keys"}}


async def test_nothing_encrypted_is_released_where_nobody_decrypts(tmp_path: Path) -> None:
    world = World(tmp_path, decryption=KEYS)

    ended = await world.run("spec")

    assert isinstance(ended, WaitingError)
    assert ended.reason == "DecryptionUnavailable"
    assert "start it with --webhook-client-networks" in str(ended)
    assert world.helm.done == []

    world.armed = True
    await world.ready("dependency")

    assert world.helm.done == ["install"]


async def test_release_that_is_as_desired_stays_ready_while_nobody_decrypts(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, decryption=KEYS, install={"disableWait": True})
    world.armed = True
    await world.ready("spec")

    world.armed = False
    await world.ready("dependency")
    world.start()
    await world.ready("start")

    assert world.helm.done == ["install"]


async def test_what_nobody_would_decrypt_is_not_compared_with_the_cluster(tmp_path: Path) -> None:
    detects = {"driftDetection": {"mode": "enabled"}, "install": {"disableWait": True}}
    world = World(tmp_path, decryption=KEYS, **detects)
    world.armed = True
    await world.ready("spec")

    world.armed = False
    ended = await world.run("drift")

    assert isinstance(ended, WaitingError)
    assert ended.reason == "DecryptionUnavailable"


async def test_encrypted_secrets_go_to_no_other_cluster(tmp_path: Path) -> None:
    world = World(tmp_path, decryption=KEYS, kubeConfig={"secretRef": {"name": "far"}})
    world.armed = True

    ended = await world.run("spec")

    assert isinstance(ended, StalledError)
    assert "spec.kubeConfig names another cluster" in str(ended)
    assert world.helm.orders == []


async def test_rollback_without_a_record_is_tried_again(tmp_path: Path) -> None:
    remediation = {"retries": 0, "remediateLastFailure": True}
    world = await installed(tmp_path, upgrade={"remediation": remediation})
    unrecorded = Failure("secrets is forbidden", recorded=False)
    world.helm.failures |= {"upgrade": Failure(), "rollback": unrecorded}
    world.spec(values={"x": 1})

    ended = await world.run("spec")

    assert isinstance(ended, ActionError)
    assert world.condition("Ready")[:2] == ("False", "RollbackFailed")
    assert world.helm.done == ["upgrade", "rollback"]
    assert len(world.told) == 2


async def test_uninstallation_without_a_record_is_tried_again(tmp_path: Path) -> None:
    remediation = {"retries": 0, "remediateLastFailure": True}
    world = World(tmp_path, install={"remediation": remediation})
    unrecorded = Failure("secrets is forbidden", recorded=False)
    world.helm.failures |= {"install": Failure(), "uninstall": unrecorded}

    ended = await world.run("spec")

    assert isinstance(ended, ActionError)
    assert world.condition("Ready")[:2] == ("False", "UninstallFailed")
    assert world.helm.done == ["install", "uninstall"]


async def test_tests_without_a_record_are_tried_again(tmp_path: Path) -> None:
    world = World(tmp_path, test={"enable": True})
    world.helm.failures["test"] = Failure("pods is forbidden", recorded=False)
    await world.ready("spec")
    world.object_is("Current")

    ended = await world.run("health")

    assert isinstance(ended, ActionError)
    assert world.condition("TestSuccess")[:2] == ("False", "TestFailed")
    assert world.helm.done == ["install", "test"]
    assert world.helm.reads == 0


async def test_release_that_cannot_be_unlocked_is_tried_again(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.helm.leave_pending()
    world.changes_storage("pending-upgrade")
    world.helm.failures["unlock"] = Failure("secrets is forbidden", recorded=False)

    ended = await world.run("storage")

    assert isinstance(ended, ActionError)
    assert world.helm.done == ["unlock"]
    assert world.helm.reads == 1
    assert world.obj.status.failures == 1
