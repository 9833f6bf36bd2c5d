"""A repository that was written for Flux, as homes and companies keep theirs, runs as it is.

``tests/testdata/fleet`` has a root in ``flux-system``, apps by namespace that share its source and
wait for each other across namespaces, components, variables and SOPS documents. The documents are
encrypted here, for a key that is made for the test; nothing else is written for Penstock.
"""

import asyncio
import base64
import datetime as dt
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pyrage
import pytest
import pytest_asyncio
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    SECRET,
    World,
    is_ready,
    revision_of,
)
from toolkit.decrypt import seal
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

FLEET = Path(__file__).parents[1] / "testdata" / "fleet"
ROOT = "flux-system"


def secret(name: str, **values: str) -> Json:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def files(identity: pyrage.x25519.Identity) -> Mapping[str, bytes]:
    """Return the repository, with what only its owner can read."""
    common = "kubernetes/components/common"
    plain = {
        f"{common}/cluster-secrets.sops.yaml": secret("cluster-secrets", SECRET_DOMAIN="home.arpa"),
        f"{common}/sops-age.sops.yaml": secret("sops-age", **{"age.agekey": str(identity)}),
        "kubernetes/apps/media/jellyfin/app/secret.sops.yaml": secret(
            "jellyfin", password="hunter2"
        ),
    }
    found = (file for file in FLEET.rglob("*") if file.is_file())
    shown = {str(file.relative_to(FLEET)): file.read_bytes() for file in found}
    recipients = (str(identity.to_public()),)
    now = dt.datetime.now(dt.UTC)
    sealed = {
        path: seal.seal(yaml.safe_dump(obj).encode(), recipients, now=now)
        for path, obj in plain.items()
    }
    return shown | sealed


def bootstrap(url: str, identity: pyrage.x25519.Identity) -> list[Json]:
    """Return what ``flux bootstrap`` writes, and the key that its user creates."""
    key = secret("sops-age", **{"age.agekey": str(identity)})
    key["metadata"]["namespace"] = ROOT
    source = {
        "apiVersion": GIT_REPOSITORY.api_version,
        "kind": "GitRepository",
        "metadata": {"name": ROOT, "namespace": ROOT},
        "spec": {"interval": "1h", "ref": {"branch": "main"}, "url": url},
    }
    root = {
        "apiVersion": KUSTOMIZATION.api_version,
        "kind": "Kustomization",
        "metadata": {"name": ROOT, "namespace": ROOT},
        "spec": {
            "interval": "1h",
            "path": "./kubernetes/flux/cluster",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": ROOT},
        },
    }
    return [key, source, root]


@pytest_asyncio.fixture(loop_scope="session")
async def commit(world: World) -> AsyncIterator[str]:
    """Commit the repository and apply its root; remove everything in the end."""
    identity = pyrage.x25519.Identity.generate()
    repository = world.git.repository("fleet")
    made = repository.commit(files(identity))
    await world.apply(*bootstrap(repository.url, identity))
    yield made
    await world.api.delete(KUSTOMIZATION, ROOT, ROOT)
    await asyncio.gather(*(world.gone(NAMESPACE, "", f"fleet-{n}") for n in ("media", "storage")))
    await world.api.delete(GIT_REPOSITORY, ROOT, ROOT)
    await world.api.delete(SECRET, "sops-age", ROOT)


async def test_a_fleet_written_for_flux_runs_unchanged(world: World, commit: str) -> None:
    for namespace, name in (
        (ROOT, ROOT),
        (ROOT, "cluster-apps"),
        ("fleet-storage", "rook"),
        ("fleet-media", "jellyfin"),
    ):
        await world.until(
            KUSTOMIZATION, namespace, name, lambda obj: is_ready(obj) and commit in revision_of(obj)
        )

    config = await world.api.get(CONFIG_MAP, "jellyfin", "fleet-media")
    backup = await world.api.get(CONFIG_MAP, "jellyfin-backup", "fleet-media")
    stored = await world.api.get(SECRET, "jellyfin", "fleet-media")
    assert config["data"] == {"url": "https://jellyfin.home.arpa"}
    assert config["metadata"]["labels"]["app.kubernetes.io/name"] == "jellyfin"
    assert backup["data"] == {"capacity": "50Gi"}
    assert base64.b64decode(stored["data"]["password"]) == b"hunter2"
