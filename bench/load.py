"""What is measured with: one monorepo of N directories, one GitRepository, N Kustomizations.

Each directory holds a ConfigMap, a ServiceAccount, a Service and a Deployment; each Kustomization
applies one directory, prunes and waits.
"""

from collections.abc import Mapping
from typing import Final

import yaml

from toolkit.objects import GroupVersionKind, Json

NAMESPACE: Final = "bench"
SOURCE: Final = "bench"
IMAGE: Final = "registry.k8s.io/pause:3.10"
DATA_KEY: Final = "message"
NO_INTERVAL: Final = "10m"
"""An interval that does not come round during a phase."""

GIT_REPOSITORY: Final = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KUSTOMIZATION: Final = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
NAMESPACES: Final = GroupVersionKind("", "v1", "Namespace")
CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")


def names(count: int) -> list[str]:
    """Return the names of the Kustomizations, which are those of their objects too."""
    return [f"app-{number:04d}" for number in range(count)]


def files(name: str, *, message: str, kustomize: bool) -> dict[str, str]:
    """Return the files of one directory; with ``kustomize`` also a kustomization.yaml."""
    resources = {
        "configmap.yaml": _object("v1", "ConfigMap", name) | {"data": {DATA_KEY: message}},
        "serviceaccount.yaml": _object("v1", "ServiceAccount", name),
        "service.yaml": _object("v1", "Service", name)
        | {"spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}},
        "deployment.yaml": _object("apps/v1", "Deployment", name) | {"spec": _deployment(name)},
    }
    documents: dict[str, Json] = dict(resources)
    if kustomize:
        documents["kustomization.yaml"] = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": sorted(resources),
        }
    return {
        f"apps/{name}/{file}": yaml.safe_dump(doc, sort_keys=False)
        for file, doc in documents.items()
    }


def git_repository(url: str, labels: Mapping[str, str]) -> Json:
    """Return the source."""
    return custom(GIT_REPOSITORY, SOURCE, labels) | {
        "spec": {"interval": NO_INTERVAL, "url": url, "ref": {"branch": "main"}}
    }


def kustomization(name: str, labels: Mapping[str, str]) -> Json:
    """Return one Kustomization."""
    return custom(KUSTOMIZATION, name, labels) | {
        "spec": {
            "interval": NO_INTERVAL,
            "timeout": "5m",
            "path": f"./apps/{name}",
            "prune": True,
            "wait": True,
            "sourceRef": {"kind": "GitRepository", "name": SOURCE},
        }
    }


def custom(
    gvk: GroupVersionKind, name: str, labels: Mapping[str, str], *, namespace: str = NAMESPACE
) -> Json:
    """Return an object of one of our kinds, without its spec."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}


def _object(api_version: str, kind: str, name: str) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _deployment(name: str) -> Json:
    container = {
        "name": "main",
        "image": IMAGE,
        "env": [{"name": "APP", "value": name}],
        "ports": [{"name": "http", "containerPort": 80}],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    }
    return {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"serviceAccountName": name, "containers": [container]},
        },
    }
