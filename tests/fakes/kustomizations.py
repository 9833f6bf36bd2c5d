"""Kustomizations as a reconciler reads them."""

from typing import Any

import msgspec

from crds.kustomize import Kustomization


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
