"""The content of the sample repository, commit by commit, and the two objects that follow it."""

from typing import Final

import yaml

from toolkit.objects import GroupVersionKind, Json, ObjectRef

NAMESPACE: Final = "flux-system"
SHOP: Final = "shop"

GIT_REPOSITORY: Final = ObjectRef(
    GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository"), NAMESPACE, SHOP
)
KUSTOMIZATION: Final = ObjectRef(
    GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"), NAMESPACE, SHOP
)
WEB: Final = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), SHOP, "web")
SERVICE: Final = ObjectRef(GroupVersionKind("", "v1", "Service"), SHOP, "web")
OWNED: Final = ("--selector", f"{KUSTOMIZATION.gvk.group}/name={SHOP}")
BANNER: Final = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), SHOP, "banner")


def first() -> dict[str, str]:
    """Return the files of the first commit."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}}
    return {
        "deploy/namespace.yaml": _yaml(namespace),
        "deploy/web.yaml": web(replicas=2, image="shop:1.0"),
        "deploy/service.yaml": _yaml(
            _meta("v1", "Service", "web")
            | {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
        ),
        "deploy/banner.yaml": banner("Grand opening!"),
    }


def web(*, replicas: object, image: str) -> str:
    """Return the Deployment; ``replicas`` may be nonsense, for the broken commit."""
    container = {"name": "web", "image": f"registry.example.com/{image}"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
    }
    return _yaml(_meta("apps/v1", "Deployment", "web") | {"spec": spec})


def banner(text: str) -> str:
    """Return the ConfigMap."""
    return config_map("banner", text=text)


def config_map(name: str, **data: str) -> str:
    """Return a ConfigMap of the shop."""
    return _yaml(_meta("v1", "ConfigMap", name) | {"data": data})


def objects(url: str) -> list[Json]:
    """Return the objects that a user applies: the source, and the Kustomization for it."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        custom(GIT_REPOSITORY, {"interval": "1m", "url": url, "ref": {"branch": "main"}}),
        custom(
            KUSTOMIZATION,
            {
                "interval": "10m",
                "timeout": "1m",
                "sourceRef": {"kind": "GitRepository", "name": SHOP},
                "path": "./deploy",
                "prune": True,
                "wait": True,
            },
        ),
    ]


def custom(ref: ObjectRef, spec: Json) -> Json:
    """Return an object with a spec."""
    return {
        "apiVersion": ref.gvk.api_version,
        "kind": ref.gvk.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "spec": spec,
    }


def _meta(api_version: str, kind: str, name: str) -> Json:
    metadata = {"name": name, "namespace": SHOP}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _yaml(obj: Json) -> str:
    return yaml.safe_dump(obj, sort_keys=False)
