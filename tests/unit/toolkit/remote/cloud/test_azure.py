"""Provider azure: whom Entra ID takes us for, and who sees the tokens."""

import json
from pathlib import Path

import pytest

from tests.fakes.clouds import ISSUER, FakeClouds, MakeCloud
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.identity import Bearer, ClusterName, Identity

CLIENT = "0a1b2c3d-0000-4000-8000-000000000001"
TENANT = "9f8e7d6c-0000-4000-8000-000000000002"
ANNOTATIONS = {
    "azure.workload.identity/client-id": CLIENT,
    "azure.workload.identity/tenant-id": TENANT,
}
PATH = (
    "/subscriptions/1111-2222/resourceGroups/far-group"
    "/providers/Microsoft.ContainerService/managedClusters/far"
)
CLUSTER = ClusterName(cluster=PATH)


def team(clouds: FakeClouds, *, subject: str = "team:app") -> Identity:
    """Let a ServiceAccount be an application, and return it."""
    clouds.azure.applications[TENANT, CLIENT] = (
        ISSUER.url,
        f"system:serviceaccount:{subject}",
    )
    return ISSUER.identity(annotations=ANNOTATIONS)


def scope_of(clouds: FakeClouds, token: str) -> tuple[str, str]:
    return clouds.azure.tokens[token]


async def test_account_with_an_application_logs_in_to_its_registry(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    login = await enter().registry("azure", "Fleet.azurecr.io", team(clouds))

    assert login.username == "00000000-0000-0000-0000-000000000000"
    assert login.password.endswith(CLIENT)
    assert ISSUER.given[-1] == ("api://AzureADTokenExchange",)


async def test_login_lives_as_long_as_the_registry_says(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    cloud, who = enter(), team(clouds)

    login = await cloud.registry("azure", "fleet.azurecr.io", who)
    token = await cloud.git("azure", "https://dev.azure.com/org/p/_git/r", who)

    assert (login.expires_at - token.expires_at).total_seconds() == pytest.approx(7200, abs=30)


async def test_blobs_and_repositories_get_tokens_of_their_own_scope(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    cloud, who = enter(), team(clouds)

    blobs = await cloud.bucket("azure", "https://fleet.blob.core.windows.net", who)
    git = await cloud.git("azure", "https://org.visualstudio.com/p/_git/r", who)

    assert isinstance(blobs, Bearer)
    assert isinstance(git, Bearer)
    assert scope_of(clouds, blobs.token) == (CLIENT, "https://storage.azure.com/.default")
    assert scope_of(clouds, git.token) == (CLIENT, "499b84ac-1321-427f-aa17-267ca6975798/.default")


async def test_account_without_a_federated_credential_is_refused_by_name(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    stranger = team(clouds, subject="other:app")

    with pytest.raises(CloudError, match="'team/app' gets no token as application") as caught:
        await enter().registry("azure", "fleet.azurecr.io", stranger)

    assert "eyJ" not in str(caught.value)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({}, "has no annotation 'azure.workload.identity/client-id'"),
        (
            {"azure.workload.identity/client-id": CLIENT},
            "has no annotation 'azure.workload.identity/tenant-id'",
        ),
        (
            {**ANNOTATIONS, "azure.workload.identity/tenant-id": "../evil"},
            "annotation 'azure.workload.identity/tenant-id' of ServiceAccount 'team/app' is not",
        ),
    ],
)
async def test_annotation_that_names_nobody_is_explained(
    clouds: FakeClouds, enter: MakeCloud, annotations: dict[str, str], message: str
) -> None:
    with pytest.raises(CloudError) as caught:
        await enter().registry(
            "azure", "fleet.azurecr.io", ISSUER.identity(annotations=annotations)
        )

    assert message in str(caught.value)
    assert not clouds.dialled


@pytest.mark.parametrize(
    "host",
    ["azurecr.io", "evil.example", "fleet.azurecr.io.evil.example", "xazurecr.io", ".azurecr.io"],
)
async def test_registry_that_is_not_of_azure_gets_nothing(
    clouds: FakeClouds, enter: MakeCloud, host: str
) -> None:
    with pytest.raises(ForeignHostError):
        await enter().registry("azure", host, team(clouds))

    assert not clouds.dialled


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.example",
        "https://fleet.blob.core.windows.net.evil.example",
        "https://fleet.blob.core.windows.net@evil.example",
        "https://evil.example/.blob.core.windows.net",
        "http://fleet.blob.core.windows.net",
    ],
)
async def test_endpoint_that_is_not_of_azure_gets_nothing(
    clouds: FakeClouds, enter: MakeCloud, endpoint: str
) -> None:
    with pytest.raises(ForeignHostError):
        await enter().bucket("azure", endpoint, team(clouds))

    assert not clouds.dialled


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/org",
        "http://dev.azure.com/org",
        "https://dev.azure.com.evil.example/org",
        "https://dev.azure.com@evil.example/org",
        "https://evilvisualstudio.com/org",
    ],
)
async def test_repository_that_is_not_of_devops_gets_nothing(
    clouds: FakeClouds, enter: MakeCloud, url: str
) -> None:
    with pytest.raises(ForeignHostError):
        await enter().git("azure", url, team(clouds))

    assert not clouds.dialled


async def test_federated_token_of_the_process_is_used(
    clouds: FakeClouds, enter: MakeCloud, tmp_path: Path
) -> None:
    team(clouds, subject="penstock:source-controller")
    file = tmp_path / "token"
    file.write_text(ISSUER.sign("penstock", "source-controller", "api://AzureADTokenExchange"))
    cloud = enter(
        AZURE_CLIENT_ID=CLIENT, AZURE_TENANT_ID=TENANT, AZURE_FEDERATED_TOKEN_FILE=str(file)
    )

    login = await cloud.registry("azure", "fleet.azurecr.io")

    assert login.password.endswith(CLIENT)


async def test_managed_identity_of_the_node_is_used(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.azure.node_client = "the-node"

    blobs = await enter().bucket("azure", "https://fleet.blob.core.windows.net")

    assert isinstance(blobs, Bearer)
    assert scope_of(clouds, blobs.token) == ("the-node", "https://storage.azure.com/.default")


async def test_process_without_an_identity_is_told_what_to_do(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    with pytest.raises(CloudError, match="this process has no identity at Azure: give"):
        await enter().registry("azure", "fleet.azurecr.io")

    assert clouds.asked("node") == 1


async def test_operator_may_name_a_cloud_that_is_not_microsoft_s(
    clouds: FakeClouds, enter: MakeCloud, tmp_path: Path
) -> None:
    clouds.azure.node_client = "the-node"
    file = tmp_path / "stack.json"
    file.write_text(json.dumps({"storageEndpointSuffix": "stack.example"}))
    cloud = enter(AZURE_ENVIRONMENT_FILEPATH=str(file))

    blobs = await cloud.bucket("azure", "https://fleet.blob.stack.example")

    assert isinstance(blobs, Bearer)
    with pytest.raises(ForeignHostError):
        await cloud.bucket("azure", "https://fleet.blob.core.windows.net")


async def test_aks_cluster_is_found_and_entered(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.azure.clusters[PATH] = [("https://far.hcp.westeurope.azmk8s.io:443", "the CA")]

    access = await enter().cluster("azure", CLUSTER, team(clouds))

    assert access.server == "https://far.hcp.westeurope.azmk8s.io"
    assert access.ca == b"the CA"
    assert scope_of(clouds, access.token) == (
        CLIENT,
        "6dae42f8-4368-4678-94ff-3960e28e3630/.default",
    )


async def test_name_that_is_no_aks_cluster_leads_nowhere(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    for name in ("far", CLUSTER.cluster + "/../../x", CLUSTER.cluster.replace("1111", "../1")):
        with pytest.raises(ForeignHostError, match="not the resource id"):
            await enter().cluster("azure", ClusterName(cluster=name), team(clouds))

    assert not clouds.dialled
