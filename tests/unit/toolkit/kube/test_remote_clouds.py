"""Clusters that a ConfigMap names: as whom they are entered, and who decides where they are."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from crds.meta import KubeConfigReference, LocalObjectReference, SecretKeyReference
from tests.fakes.accounts import FakeAccounts
from tests.fakes.clouds import FakeClouds
from toolkit.errors import StalledError, TransientError
from toolkit.kube.client import Client
from toolkit.kube.errors import KubeConfigError
from toolkit.kube.remote import Entry, RemoteClients
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Http

FAR = KubeConfigReference(config_map_ref=LocalObjectReference(name="far"))
ROLE = "arn:aws:iam::111122223333:role/team"
EKS = {"provider": "aws", "cluster": "arn:aws:eks:eu-west-1:111122223333:cluster/far"}


class Both:
    """A cluster with accounts, the clouds, and the clients that are made between them."""

    def __init__(self, server: FakeAccounts, clouds: FakeClouds) -> None:
        self.server = server
        self.clouds = clouds
        self.remotes: RemoteClients
        self.with_entry: Callable[[Entry], RemoteClients]

    def far(self, **data: str) -> None:
        self.server.config_map("team", "far", **data)

    def account(self, uid: str = "u1") -> None:
        self.server.put("team", "app", uid=uid, **{"eks.amazonaws.com/role-arn": ROLE})
        subject = "system:serviceaccount:team:app"
        self.clouds.aws.roles[ROLE] = (self.server.issuer.url, subject)


@pytest_asyncio.fixture
async def both() -> AsyncIterator[Both]:
    """Run the cluster and the clouds, which know its issuer, with object-level identity on."""
    server, clouds = FakeAccounts(), FakeClouds()
    clouds.believe(server.issuer)
    made = Both(server, clouds)
    async with clouds.running(), server.running() as client, Http() as http:
        assert clouds.trust.ca
        clouds.aws.clusters["far"] = ("https://far.eks.amazonaws.com", clouds.trust.ca.decode())
        cache = TokenCache()
        node = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": clouds.node}
        cloud = Cloud(http, cache=cache, environment=node, trust=clouds.trust)
        tokens = ServiceAccountTokens(client, cache=cache, object_level=True)

        def with_entry(entry: Entry) -> RemoteClients:
            return RemoteClients(client, cloud=cloud, tokens=tokens, entry=entry)

        made.with_entry = with_entry
        async with with_entry(Entry()) as made.remotes:
            yield made


async def entered(remotes: RemoteClients) -> Client:
    async with remotes.client("team", FAR) as client:
        return client


async def test_cluster_is_entered_as_the_account(both: Both) -> None:
    both.account()
    both.far(**EKS, serviceAccountName="app")

    client = await entered(both.remotes)
    again = await entered(both.remotes)

    assert client.server == "https://far.eks.amazonaws.com"
    assert client is again
    assert [session.arn for session in both.clouds.aws.sessions.values()] == [ROLE]


async def test_account_made_anew_makes_a_new_client(both: Both) -> None:
    both.account()
    both.far(**EKS, serviceAccountName="app")
    first = await entered(both.remotes)
    both.account(uid="u2")

    assert await entered(both.remotes) is not first


@pytest.mark.parametrize("data", [EKS, {"provider": "gcp", "cluster": "projects/p"}])
async def test_nobody_enters_a_cluster_as_this_process(both: Both, data: dict[str, str]) -> None:
    both.clouds.aws.node_role = "node"
    both.far(**data)

    with pytest.raises(KubeConfigError, match="serviceAccountName is missing") as caught:
        await entered(both.remotes)

    assert caught.value.reason == "KubeConfigInvalid"
    assert "name a ServiceAccount of this namespace" in str(caught.value)
    assert not both.clouds.aws.sessions


async def test_account_of_the_flag_is_for_config_maps_that_name_none(both: Both) -> None:
    both.account()
    both.far(**EKS)

    await entered(both.with_entry(Entry(default_service_account="app")))

    assert [session.arn for session in both.clouds.aws.sessions.values()] == [ROLE]


async def test_operator_may_have_clusters_entered_as_this_process(both: Both) -> None:
    both.clouds.aws.node_role = "node"
    both.far(**EKS)

    await entered(both.with_entry(Entry(shared_identity=True)))

    (session,) = both.clouds.aws.sessions.values()
    assert session.arn.endswith("role/node")
    assert not both.server.tokens


@pytest.mark.parametrize(
    "ref",
    [
        KubeConfigReference(config_map_ref=LocalObjectReference(name="gone")),
        KubeConfigReference(secret_ref=SecretKeyReference(name="gone")),
    ],
    ids=["ConfigMap", "Secret"],
)
async def test_what_names_the_cluster_must_exist(both: Both, ref: KubeConfigReference) -> None:
    with pytest.raises(TransientError, match="'team/gone'") as caught:
        async with both.remotes.client("team", ref):
            pass

    # kustomize-controller's reason for any client it cannot make
    assert caught.value.reason == "ReconciliationFailed"


async def test_account_of_the_config_map_must_exist(both: Both) -> None:
    both.far(**EKS, serviceAccountName="nobody")

    with pytest.raises(TransientError, match="ServiceAccount 'team/nobody' not found") as caught:
        await entered(both.remotes)

    # fluxcd/pkg auth/serviceaccount.go; kustomize-controller's reason for any client it cannot make
    assert caught.value.reason == "ReconciliationFailed"
    assert "failed to get service account 'team/nobody': " in str(caught.value)


async def test_address_of_a_stranger_gets_no_token(both: Both) -> None:
    both.account()
    both.far(**EKS, serviceAccountName="app", address="https://evil.example", **{"ca.crt": "x"})

    with pytest.raises(TransientError, match=r"has no endpoint 'https://evil\.example'"):
        await entered(both.remotes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"provider": "aws", "serviceAccountName": "app"}, "'cluster' is missing"),
        ({"provider": "ibm", "cluster": "x"}, "provider 'ibm' is not supported"),
        ({}, "provider '' is not supported"),
    ],
)
async def test_config_map_that_cannot_be_used_is_explained(
    both: Both, data: dict[str, str], message: str
) -> None:
    both.account()
    both.far(**data)

    with pytest.raises(KubeConfigError, match=f"ConfigMap far: {message}"):
        await entered(both.remotes)


async def test_accounts_enter_clouds_only_if_the_operator_says_so() -> None:
    server = FakeAccounts()
    server.put("team", "app")
    server.config_map("team", "far", **EKS, serviceAccountName="app")

    async with server.running() as client, Http() as http:
        cloud = Cloud(http, cache=TokenCache(), environment={})
        async with RemoteClients(client, cloud=cloud) as remotes:
            with pytest.raises(StalledError, match="feature is off"):
                await entered(remotes)


@pytest.mark.parametrize("shared", [False, True])
async def test_cluster_that_trusts_our_issuer_is_never_entered_as_this_process(
    both: Both, *, shared: bool
) -> None:
    both.far(provider="generic", address="https://far.example")

    with pytest.raises(KubeConfigError, match="serviceAccountName is missing"):
        await entered(both.with_entry(Entry(shared_identity=shared)))


async def test_clients_that_are_held_do_not_make_room() -> None:
    server = FakeAccounts()
    server.put("team", "app")

    async with server.running() as client, RemoteClients(client, size=1) as remotes:

        async def far(name: str) -> Client:
            data = {"provider": "generic", "serviceAccountName": "app"}
            server.config_map("team", "far", address=f"https://{name}.example", **data)
            return await entered(remotes)

        first = await far("one")
        remotes.hold(first)
        while_held = [await far(name) for name in ("two", "three", "one")]
        remotes.release(first)
        released = [await far(name) for name in ("two", "three", "one")]

    assert while_held[-1] is first
    assert released[-1] is not first
