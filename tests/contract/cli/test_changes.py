"""Commands that write: suspend, resume, reconcile."""

import signal
from typing import Any

import pytest

from tests.contract.cli.conftest import custom
from tests.contract.cli.controller import answer, event, start
from tests.fakes import notificationspecs
from tests.tools.waiting import SECONDS


@pytest.fixture
def source(cluster: Any) -> Any:
    cluster.git_repository(
        "apps",
        artifact=cluster.artifact,
        conditions=cluster.ready("True", "stored artifact"),
        observedGeneration=1,
    )
    return cluster


def test_suspend_and_resume_set_the_field(source: Any, penstock: Any) -> None:
    suspended = penstock("suspend", "source", "git", "apps", "-n", source.namespace)
    assert source.read("gitrepository", "apps")["spec"]["suspend"] is True

    resumed = penstock("resume", "source", "git", "apps", "--no-wait", "-n", source.namespace)

    assert source.read("gitrepository", "apps")["spec"]["suspend"] is False
    assert (suspended.code, resumed.code) == (0, 0)
    assert "✔ gitrepository suspended" in suspended.err


def test_suspend_wants_names_or_all(source: Any, penstock: Any) -> None:
    assert penstock("suspend", "source", "git", "-n", source.namespace).code == 1

    assert penstock("suspend", "source", "git", "--all", "-n", source.namespace).code == 0
    assert source.read("gitrepository", "apps")["spec"]["suspend"] is True


def test_suspended_object_is_not_reconciled_and_the_remedy_is_named(
    source: Any, penstock: Any
) -> None:
    penstock("suspend", "source", "git", "apps", "-n", source.namespace)

    result = penstock("reconcile", "source", "git", "apps", "-n", source.namespace)

    assert result.code == 1
    assert "penstock resume" in result.err


def test_reconcile_waits_for_the_answer_to_its_own_request(source: Any) -> None:
    with start(source, "reconcile", "source", "git", "apps") as command:
        answer(source, "gitrepository", "apps", {})
        _, said = command.communicate(timeout=SECONDS)

    assert command.returncode == 0
    assert said.splitlines() == [
        f"► annotating GitRepository apps in {source.namespace} namespace",
        "✔ GitRepository annotated",
        "◎ waiting for GitRepository reconciliation",
        f"✔ fetched revision {source.revision}",
    ]


def test_failure_of_the_reconciliation_is_the_commands_failure(source: Any) -> None:
    failed = source.ready("False", "authentication required", reason="AuthenticationFailed")
    with start(source, "reconcile", "source", "git", "apps") as command:
        answer(source, "gitrepository", "apps", {"conditions": failed})
        _, said = command.communicate(timeout=SECONDS)

    assert command.returncode == 1
    assert "reconciliation failed: authentication required" in said


def test_first_failure_of_an_object_is_the_commands_failure(source: Any) -> None:
    never = {"observedGeneration": -1}
    source.kustomization("apps", conditions=source.ready("False", "no such namespace"), **never)
    failed = source.ready("False", "namespaces 'nope' not found", reason="ReconciliationFailed")
    with start(source, "reconcile", "ks", "apps") as command:
        answer(source, "kustomization", "apps", {"conditions": failed, **never})
        _, said = command.communicate(timeout=SECONDS)

    assert command.returncode == 1
    assert "reconciliation failed: namespaces 'nope' not found" in said


def test_source_is_reconciled_first_if_wanted(source: Any) -> None:
    source.kustomization(
        "apps",
        conditions=source.ready("True", "Applied"),
        observedGeneration=1,
        lastAppliedRevision=source.revision,
    )
    with start(source, "reconcile", "ks", "apps", "--with-source") as command:
        answer(source, "gitrepository", "apps", {})
        answer(source, "kustomization", "apps", {})
        _, said = command.communicate(timeout=SECONDS)

    assert command.returncode == 0
    lines = [line for line in said.splitlines() if line.startswith("✔")]
    assert lines == [
        "✔ GitRepository annotated",
        f"✔ fetched revision {source.revision}",
        "✔ Kustomization annotated",
        f"✔ applied revision {source.revision}",
    ]


def test_answer_that_overtook_the_source_is_not_the_end(source: Any) -> None:
    source.kustomization(
        "apps",
        conditions=source.ready("True", "Applied"),
        observedGeneration=1,
        lastAppliedRevision="main@sha1:before",
    )
    with start(source, "reconcile", "ks", "apps", "--with-source") as command:
        assert command.stderr is not None
        answer(source, "gitrepository", "apps", {})
        answer(source, "kustomization", "apps", {})
        lines = iter(command.stderr.readline, "")
        said = next(line for line in lines if "is at main@sha1:before, its source" in line)
        applied = {"status": {"lastAppliedRevision": source.revision}}
        source.patch_status("kustomization", "apps", applied)
        _, rest = command.communicate(timeout=SECONDS)

    assert command.returncode == 0
    assert said.endswith(f"its source at {source.revision}\n")
    assert rest.splitlines()[-1] == f"✔ applied revision {source.revision}"


def test_watch_goes_on_with_every_change_until_interrupted(source: Any) -> None:
    with start(source, "get", "sources", "git", "--watch") as command:
        assert command.stdout is not None
        header, first = command.stdout.readline(), command.stdout.readline()
        failed = source.ready("False", "authentication required", reason="AuthenticationFailed")
        source.patch_status("gitrepository", "apps", {"status": {"conditions": failed}})
        second = command.stdout.readline()
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=SECONDS)

    assert header.split()[0] == "NAME"
    assert (first.split()[3], second.split()[3]) == ("True", "False")
    assert command.returncode == 130


def test_waiting_ends_with_the_timeout_and_the_last_message(source: Any) -> None:
    with start(source, "reconcile", "source", "git", "apps", timeout="5s") as command:
        _, said = command.communicate(timeout=SECONDS)

    assert command.returncode == 1
    assert "has not finished within 5s; its last message was: stored artifact" in said


def test_events_go_on_with_every_event_until_interrupted(source: Any) -> None:
    source.write(event(source, "Bucket", "another", "Other", message="not asked for"))
    source.write(event(source, "GitRepository", "apps", "First", message="it was there"))

    with start(source, "events", "--for", "gitrepo/apps", "--watch") as command:
        assert command.stdout is not None
        header, first = command.stdout.readline(), command.stdout.readline()
        source.write(event(source, "Bucket", "another", "Other", message="nor later"))
        source.write(event(source, "GitRepository", "apps", "Second", message="it came"))
        second = command.stdout.readline()
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=SECONDS)

    assert header.split()[:2] == ["LAST", "SEEN"]
    assert ("it was there" in first, "it came" in second) == (True, True)
    assert command.returncode == 130


def test_a_receiver_is_reconciled_without_its_path_being_told(source: Any) -> None:
    spec = {**notificationspecs.RIGHT["Receiver"]}
    source.write(custom("notification.toolkit.fluxcd.io", "Receiver", "hook", spec))

    with start(source, "reconcile", "receiver", "hook") as command:
        ready = source.ready("True", "Receiver initialized for path: /hook/secret")
        answer(source, "receiver", "hook", {"conditions": ready, "observedGeneration": 1})
        _, said = command.communicate(timeout=SECONDS)

    assert command.returncode == 0
    assert said.splitlines()[-1] == "✔ Receiver reconciled"
