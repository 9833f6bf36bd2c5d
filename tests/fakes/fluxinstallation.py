"""Flux as its manifests have it, by names, labels and kinds; kwok runs the pods."""

import copy
import functools
from typing import Any

from msgspec import Struct

from cli.installing import flux
from crds import KINDS, manifest
from crds.kind import Kind
from toolkit.objects import Json

NAMESPACE = "flux-system"
VERSION = "v2.9.5"
CONTROLLERS = (
    "source-controller",
    "kustomize-controller",
    "helm-controller",
    "notification-controller",
)
_RBAC = "rbac.authorization.k8s.io"
_GROUPS = ("toolkit.fluxcd.io", "extensions.fluxcd.io")


def manifests() -> list[Json]:
    """Return what gotk-components.yaml holds."""
    return [
        _object("v1", "Namespace", NAMESPACE, namespaced=False),
        *definitions(),
        *_rights(),
        _object("v1", "ResourceQuota", "critical-pods", spec={"hard": {"pods": "1000"}}),
        *(_policy(name) for name in ("allow-egress", "allow-scraping", "allow-webhooks")),
        *(part for name in CONTROLLERS for part in _controller(name)),
    ]


def definitions() -> list[Json]:
    """Return the kinds, those that Penstock knows in their newest version alone."""
    return copy.deepcopy(_definitions())


@functools.cache
def _definitions() -> list[Json]:
    known = [kind for kind in KINDS if kind.group.endswith(_GROUPS)]
    names = {kind.kind for kind in known}
    others = {each for name in CONTROLLERS for each in flux.CONTROLLERS[name] if each not in names}
    return [*map(_known, known), *map(_unknown, sorted(others))]


def _known(kind: Kind[Struct]) -> Json:
    made = manifest.definition(kind, release=VERSION)
    made["metadata"] = _metadata(kind.crd_name, namespaced=False)
    made["spec"]["versions"] = [each for each in made["spec"]["versions"] if each["storage"]]
    return made


def _unknown(kind: str) -> Json:
    group, plural = "notification.toolkit.fluxcd.io", f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": _metadata(f"{plural}.{group}", namespaced=False),
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": "v1beta3",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


def _rights() -> list[Json]:
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    accounts = [
        {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        for name in ("kustomize-controller", "helm-controller")
    ]
    role = _object(f"{_RBAC}/v1", "ClusterRole", f"crd-controller-{NAMESPACE}", namespaced=False)
    binding = _object(
        *(f"{_RBAC}/v1", "ClusterRoleBinding", f"cluster-reconciler-{NAMESPACE}"),
        namespaced=False,
    )
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    return [role | {"rules": [rule]}, binding | {"roleRef": reference, "subjects": accounts}]


def _policy(name: str) -> Json:
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    return _object("networking.k8s.io/v1", "NetworkPolicy", name, spec=spec)


def _controller(name: str) -> list[Json]:
    labels = {"app": name}
    container = {
        "name": "manager",
        "image": f"ghcr.io/fluxcd/{name}:v1.9.4",
        "args": [
            "--events-addr=http://notification-controller.flux-system.svc.cluster.local./",
            "--watch-all-namespaces=true",
            "--log-level=info",
            "--enable-leader-election",
        ],
        "env": [{"name": "RUNTIME_NAMESPACE", "value": NAMESPACE}],
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"serviceAccountName": name, "containers": [container]},
        },
    }
    ports = [{"name": "http", "port": 80, "targetPort": 9090, "protocol": "TCP"}]
    return [
        _object("v1", "ServiceAccount", name, component=name),
        _object("v1", "Service", name, component=name, spec={"selector": labels, "ports": ports}),
        _object("apps/v1", "Deployment", name, component=name, spec=spec),
    ]


def _object(
    version: str, kind: str, name: str, *, namespaced: bool = True, component: str = "", **more: Any
) -> Json:
    metadata = _metadata(name, namespaced=namespaced, component=component)
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _metadata(name: str, *, namespaced: bool, component: str = "") -> Json:
    labels = {
        "app.kubernetes.io/part-of": "flux",
        "app.kubernetes.io/instance": NAMESPACE,
        "app.kubernetes.io/version": VERSION,
    }
    if component:
        labels["app.kubernetes.io/component"] = component
    place = {"namespace": NAMESPACE} if namespaced else {}
    return {"name": name, "labels": labels, **place}
