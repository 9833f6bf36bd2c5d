"""What the tests of ArtifactGenerators share."""

from typing import Any

from tests.e2e.conftest import Space, condition
from tests.e2e.sources import digest_of
from toolkit.objects import GroupVersionKind, Json

GENERATOR = GroupVersionKind("source.extensions.fluxcd.io", "v1beta1", "ArtifactGenerator")
EXTERNAL = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "ExternalArtifact")


def generator(space: Space, *artifacts: Json, sources: str = "app", **spec: Any) -> Json:
    """Return a generator whose sources are GitRepositories known by their names."""
    return {
        "apiVersion": GENERATOR.api_version,
        "kind": GENERATOR.kind,
        "metadata": {"name": "gen", "namespace": space.namespace},
        "spec": {
            "sources": [
                {"alias": name, "kind": "GitRepository", "name": name} for name in sources.split()
            ],
            "artifacts": list(artifacts),
            **spec,
        },
    }


def artifact(name: str, *copies: tuple[str, str], **fields: str) -> Json:
    return {"name": name, "copy": [{"from": a, "to": b} for a, b in copies], **fields}


async def made(space: Space, name: str, *, but: str = "") -> Json:
    """Return an ExternalArtifact once it is Ready with another digest than ``but``."""

    def holds(obj: Json) -> bool:
        ready = condition(obj, "Ready").get("status") == "True"
        return ready and digest_of(obj) != but

    return await space.world.until(EXTERNAL, space.namespace, name, holds)
