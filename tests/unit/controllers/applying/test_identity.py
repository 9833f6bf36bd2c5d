"""What a write claims about where it comes from."""

import asyncio

import msgspec

from controllers.applying.identity import Identities, Origin
from crds.kustomize import Kustomization
from tests.fakes.apiserver import FakeApiServer
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
OBJ = msgspec.convert(
    {
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {"interval": "1m", "prune": True},
    },
    Kustomization,
)


ORIGIN = Origin(
    source=ObjectRef(GroupVersionKind("x", "v1", "Y"), "default", "app"),
    revision="r",
    digest="sha256:1",
    verified="verified by them",
)


def claimed(origin: Origin | None, claim: str) -> str | None:
    """Return a claim that a request carries."""

    async def main() -> str | None:
        server = FakeApiServer()
        server.put("configmaps", "a")
        async with server.running() as own, RemoteClients(own) as remotes:
            identities = Identities(own=own, remotes=remotes, installed=ObjectKey("system", "any"))
            client = identities.impersonated(own, OBJ, origin)
            found: Json = await client.get(CONFIG_MAP, "a", "default")
            assert found["metadata"]["name"] == "a"
        return server.headers[-1].get(f"Impersonate-Extra-provenance.penstock.dev%2F{claim}")

    return asyncio.run(main())


def test_a_write_names_what_it_comes_from() -> None:
    told = {claim: claimed(ORIGIN, claim) for claim in ("source", "revision", "digest", "verified")}

    assert told == {
        "source": "Y/default/app",
        "revision": "r",
        "digest": "sha256:1",
        "verified": "verified by them",
    }


def test_what_ends_names_itself_and_no_source() -> None:
    assert claimed(None, "applier") == "Kustomization/default/app"
    assert claimed(None, "source") is None
