"""The names of the components, which help lists without reading their manifests."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NAMES: Final = (
    "sharding",
    "ha",
    "monitoring",
    "persistent-events",
    "cert-manager",
    "decryption",
    "workload-identity",
    "by-namespace",
    "warn-cross-namespace-refs",
    "lockdown",
    "dev",
)
"""Components besides the base, in the order of an overlay, because some change others."""

NEEDS: Final[Mapping[str, str]] = MappingProxyType(
    {"monitoring.coreos.com": "monitoring", "cert-manager.io": "cert-manager"}
)
"""API groups of operators, each with the component that has objects of it."""

OF_FLUX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "source-controller": "source-controller",
        "kustomize-controller": "kustomize-controller",
        "helm-controller": "helm-controller",
        "notification-controller": "notification-controller",
        "image-reflector-controller": "image-controller",
        "image-automation-controller": "image-controller",
        "source-watcher": "source-controller",
    }
)
"""Flux's components, each with the Deployment of the base that does its work."""
