"""What a write claims about where it comes from."""

import asyncio

import msgspec

from controllers.kustomize.identity import Identities
from controllers.kustomize.sources import Mount, Sources
from crds.kustomize import Kustomization
from crds.meta import VERIFIED, Artifact
from tests.fakes.apiserver import FakeApiServer
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, Json, ObjectRef

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
OBJ = msgspec.convert(
    {
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {"interval": "1m", "prune": True},
    },
    Kustomization,
)


def mount(path: str, *, verified: bool) -> Mount:
    artifact = Artifact(
        digest="sha256:1",
        last_update_time="",
        path="p",
        revision="r",
        url="u",
        metadata={VERIFIED: "verified by them"} if verified else {},
    )
    ref = ObjectRef(GroupVersionKind("x", "v1", "Y"), "default", "app")
    return Mount(path=path, ref=ref, artifact=artifact)


def claimed(*mounts: Mount, claim: str = "verified") -> str | None:
    """Return a claim that a request carries."""

    async def main() -> str | None:
        server = FakeApiServer()
        server.put("configmaps", "a")
        async with server.running() as own, RemoteClients(own) as remotes:
            identities = Identities(own=own, remotes=remotes, namespace="system")
            sources = Sources(mounts=mounts) if mounts else None
            client = identities.impersonated(own, OBJ, sources)
            found: Json = await client.get(CONFIG_MAP, "a", "default")
            assert found["metadata"]["name"] == "a"
        return server.headers[-1].get(f"Impersonate-Extra-provenance.penstock.dev%2F{claim}")

    return asyncio.run(main())


def test_a_verified_source_is_claimed() -> None:
    assert claimed(mount("", verified=True)) == "verified by them"


def test_one_unverified_part_of_a_composed_build_voids_the_claim() -> None:
    assert claimed(mount("", verified=True), mount("apps", verified=False)) is None


def test_what_ends_names_itself_and_no_source() -> None:
    assert claimed(claim="applier") == "Kustomization/default/app"
    assert claimed(claim="source") is None
