"""Which namespaces an applier keeps, and what its conditions say."""

from typing import Any

import msgspec
import pytest

from controllers.applying import homes
from crds.kustomize import Kustomization
from tests.fakes import kustomizations
from toolkit.kube.reconciliation import Event
from toolkit.objects import GroupVersionKind, Json, ObjectRef

TEAM = ObjectRef(GroupVersionKind("", "v1", "Namespace"), "", "team")
OTHER = ObjectRef(GroupVersionKind("", "v1", "Namespace"), "", "flux-system")


class Events:
    """What users are told."""

    def __init__(self) -> None:
        self.told: list[Event] = []

    def emit(self, event: Event) -> None:
        self.told.append(event)


def body(**spec: Any) -> Json:
    source = {"kind": "GitRepository", "name": "app"}
    return {
        "metadata": {"name": "app", "namespace": "team", "generation": 1},
        "spec": {"interval": "1m", "prune": True, "sourceRef": source, **spec},
    }


def test_own_namespace_and_those_of_the_installation_are_kept() -> None:
    local = msgspec.convert(body(), Kustomization)
    remote = msgspec.convert(body(kubeConfig={"secretRef": {"name": "x"}}), Kustomization)

    assert homes.kept(local, "penstock") == {"team", "flux-system", "penstock"}
    assert homes.kept(local, "") == {"team", "flux-system"}
    assert homes.kept(remote, "penstock") == frozenset()


@pytest.mark.parametrize(
    ("undeleted", "foreign", "reason", "said"),
    [
        ([TEAM], [], "NotDeleted", "Namespace/team is not deleted, because this object"),
        ([], [OTHER], "NotTakenOver", "Namespace/flux-system is left as it is"),
        ([TEAM], [OTHER], "NotDeleted", "if it is not needed; Namespace/flux-system is left"),
    ],
)
def test_kept_namespaces_are_told_once(
    undeleted: list[ObjectRef], foreign: list[ObjectRef], reason: str, said: str
) -> None:
    events = Events()
    first = kustomizations.a_pass(body(), events)

    homes.report(first, undeleted, foreign)

    (found,) = (each for each in first.conditions if each["type"] == homes.KEPT)
    assert (found["status"], found["reason"]) == ("True", reason)
    assert said in found["message"]
    assert [event.reason for event in events.told] == [reason]
    again = kustomizations.a_pass(body() | {"status": {"conditions": [found]}}, events)
    homes.report(again, undeleted, foreign)
    assert len(events.told) == 1
    homes.report(again, [])
    assert not any(each["type"] == homes.KEPT for each in again.conditions)


def test_kept_namespaces_of_a_deleted_applier_are_told_in_an_event() -> None:
    events = Events()

    homes.tell(kustomizations.a_pass(body(), events), [TEAM])

    (event,) = events.told
    assert event.reason == "NotDeleted"
    assert "delete it by hand" in event.message
