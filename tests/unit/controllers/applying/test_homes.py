"""Which namespaces an applier keeps, and what its conditions say."""

from typing import Any

import msgspec
import pytest

from controllers.applying import homes
from crds import KINDS
from crds.kustomize import Kustomization
from tests.fakes import kustomizations
from toolkit.apply.retention import DEFINITION
from toolkit.kube.reconciliation import Event
from toolkit.objects import GroupVersionKind, Json, ObjectRef

TEAM = ObjectRef(GroupVersionKind("", "v1", "Namespace"), "", "team")
USED = ObjectRef(DEFINITION, "", "kustomizations.kustomize.toolkit.fluxcd.io")
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

    assert homes.kept(local, "penstock").namespaces == {"team", "flux-system", "penstock"}
    assert homes.kept(local, "").namespaces == {"team", "flux-system"}
    assert homes.kept(remote, "penstock").namespaces == frozenset()


@pytest.mark.parametrize("spec", [{}, {"kubeConfig": {"secretRef": {"name": "x"}}}])
def test_definitions_of_all_our_kinds_are_kept_on_every_cluster(spec: dict[str, Any]) -> None:
    keeps = homes.kept(msgspec.convert(body(**spec), Kustomization), "penstock")

    for kind in KINDS:
        assert keeps.guards(ObjectRef(DEFINITION, "", f"{kind.plural}.{kind.group}"))
    assert not keeps.guards(ObjectRef(DEFINITION, "", "certificates.cert-manager.io"))


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


def test_kept_definitions_have_a_condition_of_their_own() -> None:
    events = Events()
    rec = kustomizations.a_pass(body(), events)

    homes.report(rec, [TEAM, USED])

    said = {each["type"]: each["message"] for each in rec.conditions}
    assert "Namespace/team" in said[homes.KEPT]
    assert str(USED) not in said[homes.KEPT]
    assert said[homes.DEFINITION_KEPT] == (
        f"{USED} is not deleted, because all objects of its kind would be deleted with it:"
        " delete these objects first, or delete the definition by hand"
    )
    assert [event.reason for event in events.told] == ["NotDeleted", "NotDeleted"]
    homes.report(rec, [])
    assert not {each["type"] for each in rec.conditions} & {homes.KEPT, homes.DEFINITION_KEPT}
