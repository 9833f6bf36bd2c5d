"""Tokens of a real API server, at clouds that check them against the server's own keys."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.fakes.cloudgcp import GKE_AUDIENCE, POOL
from tests.fakes.clouds import FakeClouds
from toolkit.errors import TransientError
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.cloud.errors import CloudError
from toolkit.remote.cloud.identity import Identity
from toolkit.remote.http.http import Http

ROLE = "arn:aws:iam::111122223333:role/team"
REGISTRY = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
CLIENT, TENANT = "client-1", "tenant-1"
ANNOTATIONS = {
    "eks.amazonaws.com/role-arn": ROLE,
    "azure.workload.identity/client-id": CLIENT,
    "azure.workload.identity/tenant-id": TENANT,
}


class Site:
    """A cluster whose issuer the clouds know, and a namespace in it."""

    client: Client
    clouds: FakeClouds
    cloud: Cloud
    tokens: ServiceAccountTokens
    namespace: str
    issuer: str

    @property
    def subject(self) -> str:
        return f"system:serviceaccount:{self.namespace}:app"

    async def account(self, name: str = "app") -> None:
        """Make an account that is somebody at each cloud."""
        metadata = {"name": name, "namespace": self.namespace, "annotations": ANNOTATIONS}
        await self.client.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        )

    async def who(self, name: str = "app") -> Identity:
        found = await self.tokens.identity(self.namespace, name)
        assert found
        return found


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Site]:
    """Register the cluster's issuer at each cloud, with the keys that it publishes."""
    made = Site()
    made.namespace, made.clouds = namespace, FakeClouds()
    document = json.loads(
        await asyncio.to_thread(
            control_plane.kubectl, "get", "--raw", "/.well-known/openid-configuration"
        )
    )
    keys = await asyncio.to_thread(control_plane.kubectl, "get", "--raw", "/openid/v1/jwks")
    made.issuer = document["issuer"]
    made.clouds.issuers[made.issuer] = json.loads(keys)
    made.clouds.aws.roles[ROLE] = (made.issuer, made.subject)
    made.clouds.azure.applications[TENANT, CLIENT] = (made.issuer, made.subject)
    made.clouds.gcp.on_gke = True
    made.clouds.gcp.providers[GKE_AUDIENCE] = (made.issuer, POOL)
    settings = config.from_environment(str(control_plane.kubeconfig))
    async with (
        made.clouds.running(),
        Client.open(settings) as made.client,
        Http() as http,
    ):
        cache = TokenCache()
        node = made.clouds.node.removeprefix("http://")
        made.cloud = Cloud(
            http,
            cache=cache,
            environment={"GCE_METADATA_HOST": node},
            trust=made.clouds.trust,
        )
        made.tokens = ServiceAccountTokens(made.client, cache=cache, object_level=True)
        yield made


async def test_account_of_a_cluster_is_believed_by_each_cloud(site: Site) -> None:
    await site.account()
    who = await site.who()

    aws = await site.cloud.registry("aws", REGISTRY, who)
    azure = await site.cloud.registry("azure", "fleet.azurecr.io", who)
    gcp = await site.cloud.registry("gcp", "europe-docker.pkg.dev", who)

    assert aws.password == f"login-of-{ROLE}"
    assert azure.password.endswith(CLIENT)
    assert site.clouds.gcp.tokens[gcp.password] == site.subject


async def test_other_account_with_the_same_annotations_is_not(site: Site) -> None:
    await site.account("other")

    with pytest.raises(CloudError, match=f"'{site.namespace}/other' may not assume the role"):
        await site.cloud.registry("aws", REGISTRY, await site.who("other"))


async def test_token_is_good_at_one_cloud_only(site: Site) -> None:
    await site.account()
    who = await site.who()
    token = await who.token("api://AzureADTokenExchange")

    async def confused(*_: str) -> str:
        return token

    thief = Identity(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        annotations=who.annotations,
        token=confused,
    )

    with pytest.raises(CloudError, match="may not assume the role"):
        await site.cloud.registry("aws", REGISTRY, thief)


async def test_account_that_is_gone_is_nobody_although_its_login_is_kept(site: Site) -> None:
    await site.account()
    await site.cloud.registry("aws", REGISTRY, await site.who())
    path = f"/api/v1/namespaces/{site.namespace}/serviceaccounts/app"
    await site.client.request("DELETE", path)

    with pytest.raises(TransientError, match=r"not found: create it"):
        await site.who()


async def test_account_made_anew_signs_in_anew(site: Site) -> None:
    await site.account()
    first = await site.who()
    await site.cloud.registry("aws", REGISTRY, first)
    path = f"/api/v1/namespaces/{site.namespace}/serviceaccounts/app"
    await site.client.request("DELETE", path)
    await site.account()

    with pytest.raises(TransientError, match="was replaced just now"):
        await first.token("sts.amazonaws.com")
    await site.cloud.registry("aws", REGISTRY, await site.who())

    assert site.clouds.asked("sts.eu-west-1.amazonaws.com") == 2


async def test_rights_that_the_controller_lacks_are_named(
    site: Site, control_plane: ControlPlane
) -> None:
    await site.account()
    kubeconfig = await asyncio.to_thread(control_plane.kubeconfig_as, f"poor-{site.namespace}")

    async with Client.open(config.from_environment(str(kubeconfig))) as poor:
        tokens = ServiceAccountTokens(poor, cache=TokenCache(), object_level=True)
        with pytest.raises(TransientError, match="needs the right to get serviceaccounts"):
            await tokens.identity(site.namespace, "app")
