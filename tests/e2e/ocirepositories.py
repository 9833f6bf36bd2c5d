"""What the tests of OCIRepositories share."""

from typing import Any

from tests.e2e.conftest import Space
from tests.fakes.registry import FakeRegistry
from toolkit.objects import GroupVersionKind, Json

OCI_REPOSITORY = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "OCIRepository")
NAME = "team/app"


def source(space: Space, server: FakeRegistry, name: str = "app", **spec: Any) -> Json:
    """Return an OCIRepository of the artifact in a registry."""
    return {
        "apiVersion": OCI_REPOSITORY.api_version,
        "kind": "OCIRepository",
        "metadata": {"name": name, "namespace": space.namespace},
        "spec": {"interval": "10m", "url": server.url(NAME), "insecure": True, **spec},
    }
