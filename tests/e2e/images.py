"""Objects that follow images: what to scan, what to choose, and where to write it."""

from tests.e2e.conftest import Space
from tests.fakes.registry import FakeRegistry
from toolkit.objects import GroupVersionKind, Json

GROUP = "image.toolkit.fluxcd.io"
IMAGE_REPOSITORY = GroupVersionKind(GROUP, "v1", "ImageRepository")
IMAGE_POLICY = GroupVersionKind(GROUP, "v1", "ImagePolicy")
AUTOMATION = GroupVersionKind(GROUP, "v1", "ImageUpdateAutomation")
NAME = "org/web"


def manifest(space: Space, kind: str, spec: Json, version: str = "v1", name: str = "app") -> Json:
    metadata = {"name": name, "namespace": space.namespace}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def repository_of(space: Space, server: FakeRegistry, **more: object) -> Json:
    spec = {"image": f"{server.host}/{NAME}", "interval": "1h", "insecure": True, **more}
    return manifest(space, "ImageRepository", spec)


def policy(space: Space, **more: object) -> Json:
    spec: Json = {
        "imageRepositoryRef": {"name": "app"},
        "policy": {"semver": {"range": ">=1.0.0"}},
        **more,
    }
    return manifest(space, "ImagePolicy", spec)


def automation(space: Space, version: str = "v1", **git: object) -> Json:
    author = {"name": "bot", "email": "bot@example.com"}
    spec = {
        "interval": "1h",
        "sourceRef": {"kind": "GitRepository", "name": "app"},
        "git": {"commit": {"author": author}, **git},
        "update": {"path": "./apps", "strategy": "Setters"},
    }
    return manifest(space, "ImageUpdateAutomation", spec, version)


def marked(space: Space, server: FakeRegistry, tag: str) -> str:
    marker = f'# {{"$imagepolicy": "{space.namespace}:app"}}'
    return f"kind: X\nimage: {server.host}/{NAME}:{tag} {marker}\n"
