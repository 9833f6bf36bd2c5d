"""Clients of remote clusters: whatever a tenant writes is only data."""

import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import yaml

from crds.meta import KubeConfigReference, LocalObjectReference, SecretKeyReference
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.kube.errors import KubeConfigError, UnreachableError
from toolkit.kube.remote import RemoteClients
from toolkit.remote.dialling import Reach

SECRET = KubeConfigReference(secret_ref=SecretKeyReference(name="kubeconfig"))
CONFIG_MAP = KubeConfigReference(config_map_ref=LocalObjectReference(name="cluster"))


def kubeconfig(user: str = "t", **cluster: str) -> str:
    named = {"server": "https://remote.example.com"} | cluster
    return yaml.safe_dump(
        {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": named}],
            "users": [{"name": "x", "user": {"token": user}}],
        }
    )


def put_secret(server: FakeApiServer, **data: str) -> None:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    server.put("secrets", "kubeconfig", data=encoded)


def use(
    scenario: Callable[[RemoteClients], Awaitable[Any]], server: FakeApiServer, *, size: int = 100
) -> Any:
    async def main() -> Any:
        async with server.running() as client, RemoteClients(client, size=size) as remotes:
            return await scenario(remotes)

    return virtualtime.run(main)


async def entered(remotes: RemoteClients, ref: KubeConfigReference) -> Client:
    async with remotes.client("default", ref) as client:
        return client


@pytest.mark.parametrize("key", ["value", "value.yaml"])
def test_a_secret_is_found_under_flux_s_keys(key: str) -> None:
    server = FakeApiServer()
    put_secret(server, **{key: kubeconfig()})

    client = use(lambda remotes: entered(remotes, SECRET), server)

    assert client.server == "https://remote.example.com"


def test_a_named_key_is_the_only_one() -> None:
    server = FakeApiServer()
    put_secret(server, value=kubeconfig())
    named = KubeConfigReference(secret_ref=SecretKeyReference(name="kubeconfig", key="mine"))

    with pytest.raises(KubeConfigError, match="'mine'"):
        use(lambda remotes: entered(remotes, named), server)


def test_a_named_key_counts_before_flux_s_keys() -> None:
    server = FakeApiServer()
    mine = kubeconfig(server="https://mine.example.com")
    put_secret(server, value=kubeconfig(), mine=mine)
    named = KubeConfigReference(secret_ref=SecretKeyReference(name="kubeconfig", key="mine"))

    client = use(lambda remotes: entered(remotes, named), server)

    assert client.server == "https://mine.example.com"


def test_the_same_content_shares_a_client_and_a_change_makes_a_new_one() -> None:
    server = FakeApiServer()
    put_secret(server, value=kubeconfig())

    async def scenario(remotes: RemoteClients) -> list[Client]:
        clients = [await entered(remotes, SECRET) for _ in range(2)]
        put_secret(server, value=kubeconfig("other"))
        return [*clients, await entered(remotes, SECRET)]

    first, second, third = use(scenario, server)

    assert first is second
    assert third is not first


def test_a_missing_secret_is_told() -> None:
    with pytest.raises(TransientError, match="kubeconfig"):
        use(lambda remotes: entered(remotes, SECRET), FakeApiServer())


METADATA = ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "100.100.100.200"]


@pytest.mark.parametrize("host", METADATA)
def test_a_metadata_service_is_no_cluster(host: str) -> None:
    server = FakeApiServer()
    put_secret(server, value=kubeconfig(server=f"https://{host}"))

    with pytest.raises(KubeConfigError, match="cluster's server is a metadata service's"):
        use(lambda remotes: entered(remotes, SECRET), server)


@pytest.mark.parametrize("host", METADATA)
def test_a_metadata_service_is_no_way_to_a_cluster(host: str) -> None:
    server = FakeApiServer()
    put_secret(server, value=kubeconfig(**{"proxy-url": f"http://{host}:80"}))

    with pytest.raises(KubeConfigError, match="cluster's proxy is a metadata service's"):
        use(lambda remotes: entered(remotes, SECRET), server)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("named", ["server", "proxy"])
def test_what_may_not_be_asked_is_not_dialled_whatever_its_name(host: str, named: str) -> None:
    server = FakeApiServer()

    async def main() -> None:
        async with server.running() as near:
            asked = len(server.requests)
            place = near.server.replace("127.0.0.1", host)
            far = ClusterConfig(server=place if named == "server" else "http://far.example")
            if named == "proxy":
                far = replace(far, proxy=place)
            # A loopback address is private, as a metadata service's is; the one can be had here.
            async with Client.open(far, reach=Reach.PUBLIC) as client:
                with pytest.raises(UnreachableError, match="is a private address"):
                    await client.request("GET", "/version")
            assert len(server.requests) == asked

    virtualtime.run(main)


@pytest.mark.parametrize(
    "proxy", ["socks5://proxy.example.com", "proxy.example.com:3128", "http://["]
)
def test_a_way_that_cannot_be_taken_is_explained(proxy: str) -> None:
    server = FakeApiServer()
    put_secret(server, value=kubeconfig(**{"proxy-url": proxy}))

    with pytest.raises(KubeConfigError, match="the cluster's proxy"):
        use(lambda remotes: entered(remotes, SECRET), server)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"provider": "aws", "address": "https://x", "serviceAccountName": "a"}, "'aws'"),
        ({"provider": "generic", "address": "http://x", "serviceAccountName": "a"}, "https"),
        ({"provider": "generic", "address": "https://x"}, "serviceAccountName"),
    ],
)
def test_an_unusable_config_map_is_explained(data: dict[str, str], message: str) -> None:
    server = FakeApiServer()
    server.put("configmaps", "cluster", data=data)

    with pytest.raises(KubeConfigError, match=message):
        use(lambda remotes: entered(remotes, CONFIG_MAP), server)


def test_a_token_is_asked_for_in_the_own_namespace_only() -> None:
    server = FakeApiServer()
    account = "../../kube-system/serviceaccounts/admin"
    data = {"provider": "generic", "address": "https://x", "serviceAccountName": account}
    server.put("configmaps", "cluster", data=data)

    with pytest.raises(TransientError, match="invalid name"):
        use(lambda remotes: entered(remotes, CONFIG_MAP), server)


def test_the_least_recently_used_client_makes_room() -> None:
    server = FakeApiServer()
    put_secret(server, value=kubeconfig())

    async def scenario(remotes: RemoteClients) -> list[Client]:
        first = await entered(remotes, SECRET)
        put_secret(server, value=kubeconfig("other"))
        await entered(remotes, SECRET)
        put_secret(server, value=kubeconfig())
        return [first, await entered(remotes, SECRET)]

    first, again = use(scenario, server, size=1)

    assert again is not first
