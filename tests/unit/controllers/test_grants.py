"""A grant wakes what it concerns and nothing else; what passes without one is told."""

import logging
from typing import Any

import msgspec
import pytest

from controllers import grants
from controllers.grants import Refusals
from controllers.index import Index
from crds.kustomize import Kustomization
from crds.policy_referencegrant import ReferenceGrant
from tests.fakes.granting import KUSTOMIZE, SOURCE, GrantCache, grant
from toolkit import telemetry
from toolkit.kube.options import Options
from toolkit.kube.reconciliation import Event, Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef
from toolkit.policy import references
from toolkit.policy.grants import Grants

KUSTOMIZATION = GroupVersionKind(KUSTOMIZE, "v1", "Kustomization")
FROM = {"group": KUSTOMIZE, "kind": "Kustomization", "namespace": "team"}
TO = {"group": SOURCE, "kind": "GitRepository", "name": "fleet"}
ROOT = ObjectKey("flux-system", "root")
WARN = Options(cross_namespace_refs="warn")


class Woken(list[str]):
    """Who was asked to reconcile because of a grant."""

    def __call__(self, key: ObjectKey, trigger: str) -> None:
        assert trigger == "grant"
        self.append(str(key))


class Counted(Index):
    """An index that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def users(self, ref: ObjectRef) -> frozenset[ObjectKey]:
        self.asked += 1
        return super().users(ref)


def source(name: str, namespace: str = "platform") -> ObjectRef:
    return ObjectRef(GroupVersionKind(SOURCE, "v1", "GitRepository"), namespace, name)


def needing(holders: dict[ObjectRef, ObjectRef]) -> Counted:
    index = Counted()
    for holder, target in holders.items():
        index.put(holder.key, grants.needed(holder, [target]))
    return index


def woken_by(given: ReferenceGrant, *indexes: Index) -> list[str]:
    cache, woken = GrantCache(), Woken()
    Grants(cache).subscribe(lambda where, what: grants.wake(where, what, woken, *indexes))

    cache.put(given)

    return sorted(woken)


def app(namespace: str, name: str = "app") -> ObjectRef:
    return ObjectRef(KUSTOMIZATION, namespace, name)


@pytest.mark.parametrize(
    ("of", "to", "woken"),
    [
        ({}, {}, ["team/app"]),
        ({"namespace": "*"}, {}, ["other/app", "team/app"]),
        ({}, {"name": ""}, ["team/app", "team/more"]),
        ({"namespace": "*"}, {"name": ""}, ["other/app", "team/app", "team/more"]),
        ({}, {"kind": "Bucket"}, []),
        ({"kind": "ArtifactGenerator"}, {}, []),
    ],
)
def test_a_grant_wakes_what_it_allows(of: Json, to: Json, woken: list[str]) -> None:
    index = needing(
        {
            app("team"): source("fleet"),
            app("other"): source("fleet"),
            app("team", "more"): source("charts"),
            app("team", "away"): source("fleet", "elsewhere"),
            app("platform"): source("fleet"),
        }
    )

    assert woken_by(grant("platform", of=FROM | of, to=TO | to), index) == woken


def test_a_grant_costs_what_it_allows_and_not_what_exists() -> None:
    index = needing(
        {app(f"team-{n}"): source(f"s-{n}") for n in range(1000)} | {app("team"): source("fleet")}
    )

    assert woken_by(grant("platform", of=FROM, to=TO), index) == ["team/app"]
    assert index.asked == 1


def test_an_own_reference_needs_no_grant() -> None:
    assert list(grants.needed(app("team"), [source("fleet", "team")])) == []


def child(namespace: str = "team", **spec: Any) -> Json:
    return {
        "apiVersion": f"{KUSTOMIZE}/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"sourceRef": TO | {"namespace": "platform"}, **spec},
    }


def test_a_grant_wakes_what_was_refused_a_child_that_needs_it() -> None:
    refusals = Refusals()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}

    refusals.refused(ROOT, [child(), child("other"), config], [app("team")])

    assert woken_by(grant("platform", of=FROM, to=TO), refusals.index) == ["flux-system/root"]
    assert woken_by(grant("team", of=FROM, to=TO), refusals.index) == []
    assert woken_by(grant("platform", of=FROM, to=TO | {"name": "x"}), refusals.index) == []


def test_a_grant_that_comes_while_children_are_applied_is_not_missed() -> None:
    refusals = Refusals()

    refusals.awaits(ROOT, [child()])

    assert woken_by(grant("platform", of=FROM, to=TO), refusals.index) == ["flux-system/root"]


def test_an_apply_that_is_not_refused_waits_for_no_grant() -> None:
    refusals = Refusals()
    refusals.refused(ROOT, [child()], [app("team")])

    refusals.awaits(ROOT, ())

    assert woken_by(grant("platform", of=FROM, to=TO), refusals.index) == []


def test_a_child_that_was_refused_for_something_else_waits_for_no_grant() -> None:
    refusals = Refusals()
    waiting = [{"name": "base", "namespace": "platform"}]
    plain = child(sourceRef={"kind": "GitRepository", "name": "own"}, dependsOn=waiting)

    refusals.refused(ROOT, [plain], [app("team")])

    every = {"group": KUSTOMIZE, "kind": "Kustomization"}
    assert woken_by(grant("platform", of=FROM, to=every), refusals.index) == []


class Pass:
    """One pass over a Kustomization, with what it told."""

    def __init__(self, obj: Kustomization) -> None:
        self.events: list[Event] = []
        self.rec = Reconciliation(
            obj,
            KUSTOMIZATION,
            id="pass",
            triggers=frozenset(),
            recorder=self,
            log=telemetry.ObjectLogger(logging.getLogger(__name__), {}),
            write_status=_write,
        )

    def emit(self, event: Event) -> None:
        self.events.append(event)

    @property
    def condition(self) -> Json:
        return next((c for c in self.rec.conditions if c["type"] == "ReferencesGranted"), {})

    def after(self) -> "Pass":
        """Return the next pass, which finds what this one marked."""
        obj = msgspec.to_builtins(self.rec.obj) | {"status": {"conditions": self.rec.conditions}}
        return Pass(msgspec.convert(obj, Kustomization))


async def _write(obj: Kustomization, _: Json) -> Kustomization:
    return obj


def passing(*given: ReferenceGrant, options: Options = WARN, after: Pass | None = None) -> Pass:
    spec = {"interval": "1m", "prune": True}
    found = after.after() if after else Pass(msgspec.convert(child(**spec), Kustomization))
    grants.tell(found.rec, references.under(Grants(GrantCache(*given)), options))
    return found


def test_a_missing_grant_is_told_in_a_condition_and_an_event() -> None:
    found = passing()

    (event,) = found.events
    assert (event.severity, event.reason) == ("error", "GrantMissing")
    assert event.message == found.condition["message"]
    assert (found.condition["status"], found.condition["reason"]) == ("False", "GrantMissing")
    assert found.condition["message"].startswith(
        "spec.sourceRef: can't access 'GitRepository/platform/fleet', no ReferenceGrant in "
        "namespace 'platform' lets a Kustomization of namespace 'team' refer to it; it passes "
        "because of --cross-namespace-refs=warn; to allow it, apply: {apiVersion: "
    )


def test_a_missing_grant_is_told_once() -> None:
    assert passing(after=passing()).events == []


def test_the_grant_ends_the_condition() -> None:
    found = passing(grant("platform", of=FROM, to=TO), after=passing())

    assert (found.condition, found.events) == ({}, [])


@pytest.mark.parametrize(
    "options",
    [Options(), Options(no_cross_namespace_refs=True, cross_namespace_refs="warn")],
    ids=["enforced", "forbidden"],
)
def test_what_does_not_pass_is_not_said_to_pass(options: Options) -> None:
    found = passing(options=options, after=passing())

    assert (found.condition, found.events) == ({}, [])
