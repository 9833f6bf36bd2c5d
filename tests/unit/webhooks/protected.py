"""A protected namespace, and what is applied to it: objects, appliers, sources, policies."""

from typing import Any

from toolkit.kube import impersonation
from toolkit.objects import Json
from toolkit.policy import origins
from toolkit.policy.provenance import BREAK_GLASS, LABEL

KUSTOMIZE, SOURCE = "kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"
HELM = "helm.toolkit.fluxcd.io"
KINDS = {
    ("", "v1", "namespaces"): "Namespace",
    ("", "v1", "pods"): "Pod",
    ("apps", "v1", "deployments"): "Deployment",
    ("apps", "v1", "replicasets"): "ReplicaSet",
    (KUSTOMIZE, "v1", "kustomizations"): "Kustomization",
    (HELM, "v2", "helmreleases"): "HelmRelease",
    (SOURCE, "v1", "gitrepositories"): "GitRepository",
    (SOURCE, "v1", "helmcharts"): "HelmChart",
    (SOURCE, "v1", "ocirepositories"): "OCIRepository",
}
OWNER = {f"{KUSTOMIZE}/name": "web", f"{KUSTOMIZE}/namespace": "shop"}
USER = "system:serviceaccount:shop:deployer"
ROLLOUT = "system:serviceaccount:kube-system:replicaset-controller"
FROM_GIT = [{"source": {"urls": ["https://git.example/**"]}}]


def thing(group: str, kind: str, name: str, namespace: str = "shop", **body: Any) -> Json:
    metadata = {"name": name, "namespace": namespace, **body.pop("metadata", {})}
    version = {"policy.penstock.dev": "v1alpha1", HELM: "v2"}.get(group, "v1")
    api = f"{group}/{version}" if group else version
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}


def space(labels: Json | None = None, *, glass: str = "") -> Json:
    notes = {BREAK_GLASS: glass} if glass else {}
    metadata = {"labels": {LABEL: "yes"} if labels is None else labels, "annotations": notes}
    return thing("", "Namespace", "shop", "", metadata=metadata)


def policy(name: str = "production", **spec: Any) -> Json:
    return thing("policy.penstock.dev", "ProvenancePolicy", name, "", spec=spec)


def source(
    revision: str = "main@sha1:aaa",
    digest: str = "sha256:1",
    *,
    fetched: str = "https://git.example/fleet",
    url: str = "https://git.example/fleet",
    suspend: bool = False,
    **metadata: str,
) -> Json:
    """Return a source whose spec names ``url``, and whose artifact was fetched from ``fetched``."""
    before = thing(SOURCE, "GitRepository", "fleet", spec={"url": fetched})
    artifact = {
        "digest": digest,
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "path": "p",
        "revision": revision,
        "url": "http://x",
        "metadata": {origins.RECORD: origins.record(origins.own(before), ()), **metadata},
    }
    spec = {"url": url, "interval": "1m", "suspend": suspend}
    return thing(SOURCE, "GitRepository", "fleet", spec=spec, status={"artifact": artifact})


def kustomization(**spec: Any) -> Json:
    body = {
        "interval": "1m",
        "prune": True,
        "serviceAccountName": "deployer",
        "sourceRef": {"kind": "GitRepository", "name": "fleet"},
        **spec,
    }
    return thing(KUSTOMIZE, "Kustomization", "web", spec=body)


def release(**spec: Any) -> Json:
    template = {"chart": "web", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}
    body = {"interval": "1m", "chart": {"spec": template}, **spec}
    return thing(HELM, "HelmRelease", "web", spec=body)


def chart(name: str, kind: str = "HelmChart") -> Json:
    """Return a source whose artifact is the chart of a release."""
    return source("1.0.0", "sha256:1") | {
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
    }


def deployment(**body: Any) -> Json:
    return thing("apps", "Deployment", "web", **body)


def extras(**changes: str) -> dict[str, tuple[str, ...]]:
    claims = {
        "applier": "Kustomization/shop/web",
        "source": "GitRepository/shop/fleet",
        "revision": "main@sha1:aaa",
        "digest": "sha256:1",
        **changes,
    }
    return {key: (value,) for key, value in impersonation.provenance(**claims).items()}
