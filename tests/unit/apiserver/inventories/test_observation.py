"""What is kept of an object, what is told of its kind, and how much time expressions get."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver.inventories import observation
from apiserver.inventories.observation import Observation, judged, project
from apiserver.inventories.rows import UNREAD
from tests.fakes.evaluating import NoEvaluator
from tests.unit.apiserver.inventories.scene import APPLIER, KEY, REF
from toolkit.apply.health import Status, rules_of
from toolkit.apply.order import GroupKind
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json, ObjectRef

GROUP = "kustomize.toolkit.fluxcd.io"
CONFIG_MAP = REF.gvk


def entry(manager: str, time: str, *, operation: str = "Update", **more: Any) -> Json:
    return {"manager": manager, "operation": operation, "time": time, "fieldsV1": {}, **more}


def obj(*entries: Json, **fields: Any) -> Json:
    metadata = {
        "name": "conf",
        "namespace": "shop",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {f"{GROUP}/name": "app", f"{GROUP}/namespace": "shop"},
        "managedFields": list(entries),
        **fields.pop("metadata", {}),
    }
    return {"metadata": metadata, **fields}


OURS = entry("kustomize-controller", "2026-01-02T00:00:00Z", operation="Apply")


def test_those_are_named_who_have_written_since_the_applier() -> None:
    seen = project(
        CONFIG_MAP,
        obj(
            OURS,
            entry("earlier", "2026-01-01T23:59:59Z"),
            entry("same", "2026-01-02T00:00:00Z"),
            entry("later", "2026-01-02T00:00:01Z"),
            entry("status", "2026-01-03T00:00:00Z", subresource="status"),
        ),
        APPLIER,
    )

    assert (seen.live.owner, seen.applied, seen.later) == (KEY, OURS["time"], ("later", "same"))
    assert seen.live.entry


def test_marks_and_lives_are_read_from_the_object() -> None:
    disabled = obj(OURS, metadata={"annotations": {f"{GROUP}/reconcile": "Disabled"}})
    job = obj(OURS, spec={"ttlSecondsAfterFinished": 1})

    assert project(CONFIG_MAP, disabled, APPLIER).disabled
    assert project(GroupVersionKind("batch", "v1", "Job"), job, APPLIER).vanishing


@pytest.mark.parametrize(
    ("marks", "disabled"),
    [
        ({}, False),
        ({"prune": "disabled"}, False),
        ({"reconcile": "disabled"}, True),
        ({"ssa": "Ignore"}, True),
        ({"ssa": "merge"}, False),
    ],
)
@pytest.mark.parametrize("owned", [True, False])
def test_what_is_to_be_left_alone_is_so_with_and_without_an_owner(
    marks: dict[str, str], *, disabled: bool, owned: bool
) -> None:
    unlabelled: Json = {} if owned else {"labels": {}}
    annotations = {f"{GROUP}/{name}": value for name, value in marks.items()}
    found = obj(OURS, metadata={"annotations": annotations, **unlabelled})

    assert project(CONFIG_MAP, found, APPLIER).disabled is disabled


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_what_is_only_created_is_left_to_others(place: str) -> None:
    found = obj(OURS, metadata={place: {f"{GROUP}/ssa": "IfNotPresent"}})

    seen = project(CONFIG_MAP, found, APPLIER)

    assert (seen.yielded, seen.disabled) == (True, False)


def test_metadata_alone_are_judged_as_the_kind_that_they_are_of() -> None:
    partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", **obj(OURS)}

    seen = project(GroupVersionKind("", "v1", "Secret"), partial, APPLIER)

    assert (seen.live.owner, seen.live.health.status) == (KEY, Status.CURRENT)


def test_an_object_is_not_judged_by_its_owners_expressions_before_they_are_evaluated() -> None:
    rules = rules_of([{"apiVersion": "v1", "kind": "ConfigMap", "current": "data.up == '1'"}])
    seen = project(CONFIG_MAP, obj(OURS, data={"up": "0"}), APPLIER)
    (rule,) = rules
    later = replace(seen, live=replace(seen.live, rule=rule.key))

    assert (judged(REF, seen, rules), judged(REF, later, rules)) == (False, True)


class Cache:
    """An informer that has heard of what a test says."""

    def __init__(self) -> None:
        self.synced = False
        self.last_error: Exception | None = None

    def subscribe(self, handler: object) -> None:
        """Take nothing in."""


class Scene:
    """An observation whose informers are caches of a test; ``caches`` has each kind's newest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.caches: dict[GroupVersionKind, Cache] = {}
        self.changed: list[GroupKind] = []
        monkeypatch.setattr(observation, "Informer", self._open)
        told: Any = self
        api: Any = None
        self.observation = Observation(
            api, APPLIER, told, rules_of=lambda _: (), evaluates=NoEvaluator()
        )

    def _open(self, _: object, gvk: GroupVersionKind, **__: object) -> Cache:
        self.caches[gvk] = Cache()
        return self.caches[gvk]

    def kind_changed(self, kind: GroupKind) -> None:
        self.changed.append(kind)

    def lists(self, *_: object) -> bool:
        return False

    def start(self, ref: ObjectRef) -> Cache:
        """Have an inventory list an object."""
        self.observation.list([ref])
        self.observation.settle()
        return self.caches[ref.gvk]

    def end(self, ref: ObjectRef) -> None:
        """Have it list the object no more."""
        self.observation.unlist([ref])
        self.observation.settle()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_kind_has_changed_that_was_watched_anew_between_two_looks(scene: Scene) -> None:
    scene.start(REF).synced = True
    scene.observation.look()
    scene.changed.clear()

    scene.end(REF)
    again = scene.start(REF)
    meanwhile = scene.observation.reason(REF)
    again.synced = True
    scene.observation.look()
    scene.observation.look()

    assert (meanwhile, scene.observation.reason(REF)) == (UNREAD, "")
    assert scene.changed == [REF.gvk.group_kind]


def test_a_refused_kind_stays_refused_while_it_is_tried_again(scene: Scene) -> None:
    first = scene.start(REF)
    first.last_error = ForbiddenError("no")
    scene.observation.look()
    refused = scene.observation.reason(REF)

    scene.start(ObjectRef(GroupVersionKind("", "v1", "Secret"), "shop", "other"))
    again = scene.caches[REF.gvk]

    assert again is not first
    assert "may not be watched" in refused
    assert scene.observation.reason(REF) == refused
    again.synced = True
    assert scene.observation.reason(REF) == ""


@pytest.mark.parametrize("listed", [True, False])
def test_rules_are_evaluated_only_on_what_their_owner_lists(*, listed: bool) -> None:
    told: Any = SimpleNamespace(lists=lambda *_: listed)
    api: Any = None
    rules = rules_of([{"apiVersion": "v1", "kind": "ConfigMap", "current": "true"}])
    made = Observation(api, APPLIER, told, rules_of=lambda _: rules, evaluates=NoEvaluator())

    seen = made._project(CONFIG_MAP, obj(OURS))

    assert seen.live.owner
    waiting = made._judging._waiting.get(seen.live.owner, {})
    assert bool(waiting) is listed
