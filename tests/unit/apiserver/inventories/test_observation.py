"""What is kept of an object, and how much time expressions get."""

from typing import Any

from apiserver.inventories.observation import Budget, judged, project
from tests.unit.apiserver.inventories.scene import APPLIER, KEY, REF
from toolkit.apply.health import Status, compile_rules
from toolkit.objects import GroupVersionKind, Json

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
        lambda _: (),
    )

    assert (seen.live.owner, seen.applied, seen.later) == (KEY, OURS["time"], ("later", "same"))
    assert seen.live.entry


def test_marks_and_lives_are_read_from_the_object() -> None:
    disabled = obj(OURS, metadata={"annotations": {f"{GROUP}/reconcile": "Disabled"}})
    job = obj(OURS, spec={"ttlSecondsAfterFinished": 1})

    assert project(CONFIG_MAP, disabled, APPLIER, lambda _: ()).disabled
    assert project(GroupVersionKind("batch", "v1", "Job"), job, APPLIER, lambda _: ()).vanishing


def test_metadata_alone_are_judged_as_the_kind_that_they_are_of() -> None:
    partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", **obj(OURS)}

    seen = project(GroupVersionKind("", "v1", "Secret"), partial, APPLIER, lambda _: ())

    assert (seen.live.owner, seen.live.health.status) == (KEY, Status.CURRENT)


def test_an_object_is_judged_by_its_owners_expressions() -> None:
    rules = compile_rules([{"apiVersion": "v1", "kind": "ConfigMap", "current": "data.up == '1'"}])
    down = obj(OURS, data={"up": "0"})

    with_rules = project(CONFIG_MAP, down, APPLIER, lambda _: rules)
    without = project(CONFIG_MAP, down, APPLIER, lambda _: ())

    assert with_rules.live.health.status is Status.IN_PROGRESS
    assert (judged(REF, with_rules, rules), judged(REF, without, rules)) == (True, False)


def test_expressions_get_so_much_time_each_second() -> None:
    budget = Budget(0.2)

    before = budget.left(10.1)
    budget.spend(0.25)

    assert (before, budget.left(10.9), budget.left(11.0)) == (True, False, True)
