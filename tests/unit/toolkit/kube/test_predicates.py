"""Which changes start a pass, and which must not."""

from typing import Any

import msgspec
import pytest

from crds.source import GitRepository
from toolkit.kube import predicates
from toolkit.kube.reconciliation import FINALIZER, REQUESTED_AT


def repository(status: dict[str, Any] | None = None, **meta: Any) -> GitRepository:
    body = {
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "generation": 1} | meta,
        "spec": {"url": "https://example.com", "interval": "1m"},
        "status": status or {},
    }
    return msgspec.convert(body, GitRepository)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"generation": 2}, ("spec",)),
        ({}, {"uid": "another"}, ("spec",)),
        ({}, {"labels": {"a": "b"}}, ("spec",)),
        ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, ("spec",)),
        ({"finalizers": [FINALIZER]}, {"finalizers": []}, ("spec",)),
        ({}, {"annotations": {REQUESTED_AT: "1"}}, ("requested",)),
        ({}, {"annotations": {REQUESTED_AT: "1"}, "generation": 2}, ("spec", "requested")),
        ({}, {"annotations": {"reconcile.fluxcd.io/forceAt": "1"}}, ("spec",)),
        ({}, {"annotations": {"source.extensions.fluxcd.io/reconcile": "disabled"}}, ("spec",)),
        ({}, {"annotations": {"policy.penstock.dev/verify": "release"}}, ("spec",)),
        ({}, {"annotations": {"image.penstock.dev/pull-request": "github"}}, ("spec",)),
        ({}, {"finalizers": [FINALIZER]}, ()),
        ({"finalizers": ["x.io/y"]}, {"finalizers": []}, ()),
        ({}, {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, ()),
        ({}, {"resourceVersion": "9"}, ()),
    ],
)
def test_a_change_of_metadata(
    before: dict[str, Any], after: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert predicates.triggers(repository(**before), repository(**after)) == expected


def test_a_status_update_starts_nothing() -> None:
    after = repository(status={"observedGeneration": 1, "lastHandledReconcileAt": "x"})

    assert predicates.triggers(repository(), after) == ()


def test_a_new_object_starts_a_pass_and_remembers_a_pending_request() -> None:
    pending = repository(annotations={REQUESTED_AT: "1"})
    handled = repository({"lastHandledReconcileAt": "1"}, annotations={REQUESTED_AT: "1"})

    assert predicates.triggers(None, repository()) == ("spec",)
    assert predicates.triggers(None, pending) == ("spec", "requested")
    assert predicates.triggers(None, handled) == ("spec",)
