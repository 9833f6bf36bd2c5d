"""Kustomizations as a reconciler reads them, and passes over them."""

import logging
from typing import Any

import msgspec

from crds import KUSTOMIZATION
from crds.kustomize import Kustomization
from toolkit import telemetry
from toolkit.kube.reconciliation import EventSink, Reconciliation
from toolkit.objects import GroupVersionKind, Json


def kustomization(**spec: Any) -> Kustomization:
    """Return the Kustomization ``prod/app`` of GitRepository ``app``, with these further fields."""
    usual = {
        "interval": "1m",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "app"},
    }
    obj = {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "prod"},
        "spec": usual | spec,
    }
    return msgspec.convert(obj, Kustomization)


def a_pass(body: Json, recorder: EventSink) -> Reconciliation[Kustomization]:
    """Return a pass over a Kustomization, whose status writes go nowhere."""
    return Reconciliation(
        msgspec.convert(body, Kustomization),
        GroupVersionKind(*KUSTOMIZATION.gvk),
        id="pass",
        triggers=frozenset(),
        recorder=recorder,
        log=telemetry.ObjectLogger(logging.getLogger(__name__), {}),
        write_status=_unwritten,
    )


async def _unwritten(obj: Kustomization, _: Json) -> Kustomization:
    return obj
