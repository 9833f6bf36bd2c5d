"""What is read from an object's status: every verdict that a waiting command depends on."""

from typing import Any

import pytest

from cli import status
from crds import ARTIFACT_GENERATOR, KINDS
from crds.kind import Kind
from toolkit.objects import Json


def kustomization(
    *,
    ready: str = "True",
    reason: str = "ReconciliationSucceeded",
    generation: int = 2,
    observed: int = 2,
    handled: str = "",
    stalled: bool = False,
) -> Json:
    conditions = [
        {"type": "Ready", "status": ready, "reason": reason, "observedGeneration": observed}
    ]
    if stalled:
        conditions.append({"type": "Stalled", "status": "True", "reason": reason})
    return {
        "metadata": {"generation": generation},
        "status": {
            "observedGeneration": observed,
            "conditions": conditions,
            "lastHandledReconcileAt": handled,
        },
    }


def test_revision_is_found_whatever_the_kind() -> None:
    assert status.revision({"status": {"artifact": {"revision": "main@sha1:ab"}}}) == "main@sha1:ab"
    assert status.revision({"status": {"lastAppliedRevision": "main@sha1:cd"}}) == "main@sha1:cd"
    history = [{"chartVersion": "6.5.0"}, {"chartVersion": "6.4.0"}]
    assert status.revision({"status": {"history": history}}) == "6.5.0"
    assert status.revision({"spec": {}}) == ""


def test_unseen_object_is_waiting_to_be_reconciled() -> None:
    ready = status.readiness({"status": {"observedGeneration": -1}})

    assert (ready.status, ready.message) == ("False", "waiting to be reconciled")


def test_ready_at_the_present_generation_is_settled() -> None:
    assert status.settled(kustomization())


@pytest.mark.parametrize(
    "obj",
    [
        kustomization(ready="Unknown"),
        kustomization(ready="False"),
        kustomization(generation=3),
        {"metadata": {"generation": 1}},
    ],
)
def test_all_else_is_not_settled(obj: Json) -> None:
    assert not status.settled(obj)


def test_readiness_from_before_the_request_does_not_answer_it() -> None:
    before, after = kustomization(handled="t1"), kustomization(handled="t2")

    assert not status.settled(before, requested="t2")
    assert status.settled(after, requested="t2")


def test_failure_from_before_the_request_does_not_answer_it_either() -> None:
    before = kustomization(ready="False", reason="BuildFailed", handled="t1")

    assert not status.failed(before, requested="t2")
    assert status.failed(before, requested="t1")


def test_failure_of_an_older_generation_is_not_counted() -> None:
    assert not status.failed(kustomization(ready="False", reason="BuildFailed", generation=3))


def test_failure_of_an_object_that_never_succeeded_answers_the_request() -> None:
    never = kustomization(ready="False", reason="ReconciliationFailed", handled="t1")
    never["status"]["observedGeneration"] = -1

    assert status.failed(never, requested="t1")
    assert status.failed(never, begun=True)
    assert not status.failed(never)
    assert not status.failed(never, requested="t2")
    assert not status.failed({**never, "metadata": {"generation": 3}}, requested="t1")


def test_waiting_for_a_dependency_is_no_failure_unless_stalled() -> None:
    waiting = kustomization(ready="False", reason="DependencyNotReady")
    stalled = kustomization(ready="False", reason="DependencyNotReady", stalled=True)

    assert not status.failed(waiting)
    assert status.failed(stalled)


def test_every_kind_is_either_a_source_or_not() -> None:
    sources = {kind.kind for kind in KINDS if status.is_source(kind)}

    assert "GitRepository" in sources
    assert "Kustomization" not in sources


def test_a_kind_that_nobody_reconciles_is_observed_as_it_is() -> None:
    obj = {
        "metadata": {"generation": 3},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }

    assert status.settled(obj)
    assert not status.settled(obj | {"status": {**obj["status"], "observedGeneration": -1}})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("suspend", [True, False])
def test_what_suspends_an_object_is_seen(kind: Kind[Any], *, suspend: bool) -> None:
    patch = status.suspension(kind, suspend=suspend)

    assert status.suspended({"kind": kind.kind, **patch}) is suspend


def test_a_generator_is_switched_off_by_its_annotation() -> None:
    annotation = {"source.extensions.fluxcd.io/reconcile": "disabled"}

    assert status.suspension(ARTIFACT_GENERATOR, suspend=True) == {
        "metadata": {"annotations": annotation}
    }


def test_a_registry_of_charts_is_ready_without_a_condition() -> None:
    registry: Json = {"kind": "HelmRepository", "spec": {"type": "oci"}}

    assert status.static(registry)
    assert status.readiness(registry).status == "True"


def test_an_index_of_charts_waits_to_be_reconciled() -> None:
    index: Json = {"kind": "HelmRepository", "spec": {"type": "default"}}

    assert not status.static(index)
    assert status.readiness(index).status == "False"


def provider(**conditions: str) -> Json:
    rows = [
        {"type": kind, "status": said.partition(" ")[0], "reason": "R", "message": said}
        for kind, said in conditions.items()
    ]
    return {"kind": "Provider", "metadata": {}, "status": {"conditions": rows}}


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (provider(), "True Provider has not sent an event yet"),
        (provider(Ready="True initialized"), "True Provider has not sent an event yet"),
        (provider(Ready="False the Secret is missing"), "False the Secret is missing"),
        (provider(Ready="True initialized", Delivering="False HTTP 503"), "False HTTP 503"),
        (provider(Ready="True initialized", Delivering="True took it"), "True took it"),
        # what is wrong with it now comes before what became of an earlier event
        (provider(Ready="False no account", Delivering="True took it"), "False no account"),
    ],
)
def test_a_provider_is_as_ready_as_its_service(obj: Json, shown: str) -> None:
    found = status.readiness(obj)

    told = found.message if found.message.startswith(found.status) else ""
    assert (told or f"{found.status} {found.message}") == shown
