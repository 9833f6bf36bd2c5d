"""What a pass says of the objects that it applied."""

import logging
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from controllers.applying import reporting
from controllers.applying.clusters import LOST
from crds.kustomize import Kustomization
from toolkit.apply.prune import Pruned
from toolkit.kube.reconciliation import Event, Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef
from toolkit.telemetry import ObjectLogger

GVK = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
REF = ObjectRef(CONFIG_MAP, "shop", "conf")
OTHER = ObjectKey("shop", "other")


@dataclass
class Events:
    """What users are told."""

    told: list[str] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        self.told.append(event.message)


def a_pass(events: Events, conditions: list[Json] | None = None) -> Reconciliation[Kustomization]:
    """Draft a pass over an object that has these conditions."""
    body: dict[str, Any] = {
        "metadata": {"name": "app", "namespace": "shop"},
        "spec": {"interval": "1m", "prune": True},
        "status": {"conditions": conditions or []},
    }

    async def unchanged(obj: Kustomization, _: Json) -> Kustomization:
        return obj

    return Reconciliation(
        msgspec.convert(body, Kustomization),
        GVK,
        id="1",
        triggers=frozenset(),
        recorder=events,
        log=ObjectLogger(logging.getLogger("test"), {}),
        write_status=unchanged,
    )


def shown(rec: Reconciliation[Kustomization], kind: str) -> str:
    """Return status, reason and message of a condition; empty if there is none."""
    found = [row for row in rec.conditions if row["type"] == kind]
    return " ".join(f"{row['status']} {row['reason']}: {row['message']}" for row in found)


@pytest.mark.parametrize(
    ("why", "line", "said"),
    [
        (LOST, "ConfigMap/shop/conf created", "it was deleted"),
        (LOST, "ConfigMap/shop/conf configured", "it had lost the labels of its owner"),
        (
            "it was changed by kubectl",
            "ConfigMap/shop/conf configured",
            "it was changed by kubectl",
        ),
    ],
)
def test_only_what_had_to_be_created_was_deleted(why: str, line: str, said: str) -> None:
    assert reporting.correction(REF, why, [line]) == said


def test_who_applied_an_object_since_is_in_the_condition_and_told_once() -> None:
    events = Events()
    first = a_pass(events)
    reporting.report_claims(first, {REF: OTHER})
    second = a_pass(events, first.conditions)
    reporting.report_claims(second, {REF: OTHER})
    third = a_pass(events, second.conditions)
    reporting.report_claims(third, {})

    message = (
        "other appliers have applied these objects since: ConfigMap/shop/conf by Kustomization"
        " shop/other;"
        " remove each object from all appliers but one"
    )
    assert shown(first, "Contested") == f"True OtherApplier: {message}"
    assert shown(second, "Contested") == shown(first, "Contested")
    assert shown(third, "Contested") == ""
    assert events.told == [message]


def test_what_finalizers_hold_is_in_the_condition_until_it_is_gone() -> None:
    first = a_pass(Events())
    reporting.report_held(first, Pruned(held=((REF, ("example.com/hold",)),)))
    second = a_pass(Events(), first.conditions)
    reporting.report_held(second, Pruned())

    assert shown(first, "Pruned") == (
        "False WaitingForFinalizers:"
        " waiting for finalizers of ConfigMap/shop/conf (example.com/hold)"
    )
    assert shown(second, "Pruned") == ""


def test_long_lists_are_counted() -> None:
    refs = [ObjectRef(CONFIG_MAP, "shop", f"c{number:02}") for number in range(12)]
    rec = a_pass(Events())

    reporting.report_claims(rec, dict.fromkeys(refs, OTHER))
    reporting.report_held(rec, Pruned(held=tuple((ref, ()) for ref in refs)))

    assert "c09 by Kustomization shop/other, and 2 more;" in shown(rec, "Contested")
    assert shown(rec, "Pruned").endswith("c09, and 2 more")


@pytest.mark.parametrize(
    ("lines", "short"),
    [
        ((), ""),
        (("ConfigMap/shop/a skipped",), ""),
        (
            ("ConfigMap/shop/a configured", "ConfigMap/shop/b created", "Secret/shop/c deleted"),
            "1 created, 1 configured: ConfigMap/shop/b, ConfigMap/shop/a\n1 deleted: Secret/shop/c",
        ),
        (
            tuple(f"ConfigMap/shop/{number} deleted" for number in range(400)),
            (
                "400 deleted: ConfigMap/shop/0, ConfigMap/shop/1, ConfigMap/shop/2,"
                " ConfigMap/shop/3, ConfigMap/shop/4 and 395 more"
            ),
        ),
    ],
)
def test_what_changed_is_told_in_two_lines(lines: tuple[str, ...], short: str) -> None:
    assert reporting.in_short(lines) == short
