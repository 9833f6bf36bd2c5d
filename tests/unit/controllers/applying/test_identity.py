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


def about(**spec: object) -> dict[str, str]:
    obj = msgspec.convert(
        {
            "metadata": {"name": "app", "namespace": "shop"},
            "spec": {"interval": "1m", "prune": True, **spec},
        },
        Kustomization,
    )

    async def main() -> dict[str, str]:
        async with FakeApiServer().running() as own, RemoteClients(own) as remotes:
            identities = Identities(own=own, remotes=remotes, installed=ObjectKey("system", "any"))
            return identities.about(obj, ORIGIN)

    return asyncio.run(main())


def test_events_tell_who_applies_and_who_signed() -> None:
    proof = {"verified": "verified by them"}

    assert about() == {"account": "system/any", **proof}
    assert about(serviceAccountName="deployer") == {"account": "shop/deployer", **proof}


def test_events_name_no_account_where_a_kubeconfig_stands_for_another() -> None:
    remote = {"secretRef": {"name": "cluster"}}

    assert about(kubeConfig=remote) == {"verified": "verified by them"}
    assert about(kubeConfig=remote, serviceAccountName="a")["account"] == "shop/a"
