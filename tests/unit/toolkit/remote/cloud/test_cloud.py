"""The way in: what holds for every provider."""

import pytest

from tests.fakes.clouds import ISSUER, FakeClouds, MakeCloud
from toolkit.remote.cloud.errors import ForeignHostError
from toolkit.remote.cloud.identity import ClusterName, SessionKeys

GAR = "europe-docker.pkg.dev"
CODE_COMMIT = "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet"


async def test_process_s_own_credentials_are_not_shown_to_whom_an_object_s_ca_vouches_for(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    clouds.gcp.on_gke = True
    clouds.azure.node_client = "node"
    cloud = enter()

    with pytest.raises(ForeignHostError, match="identity of this process: name an account"):
        await cloud.registry("gcp", GAR, own_ca=True)
    with pytest.raises(ForeignHostError, match="identity of this process"):
        await cloud.bucket("gcp", "storage.googleapis.com", own_ca=True)
    with pytest.raises(ForeignHostError, match="identity of this process"):
        await cloud.git("azure", "https://dev.azure.com/o/p/_git/r", own_ca=True)
    named = ClusterName(cluster="projects/p/locations/l/clusters/c", ca=b"mine")
    with pytest.raises(ForeignHostError, match="identity of this process"):
        await cloud.cluster("gcp", named)


async def test_tokens_are_not_sent_in_the_clear(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.gcp.on_gke = True

    with pytest.raises(ForeignHostError, match="not sent without encryption"):
        await enter().bucket("gcp", "storage.googleapis.com", plain_http=True)


async def test_account_s_own_may_be(clouds: FakeClouds, enter: MakeCloud) -> None:
    name = "projects/1/locations/global/workloadIdentityPools/fleet/providers/far"
    audience = f"//iam.googleapis.com/{name}"
    clouds.gcp.providers[audience] = (ISSUER.url, audience)
    who = ISSUER.identity(annotations={"gcp.auth.fluxcd.io/workload-identity-provider": name})

    login = await enter().registry("gcp", GAR, who, own_ca=True)

    assert login.password in clouds.gcp.tokens


async def test_signatures_may_be_seen_by_anybody(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.aws.node_role = "node"

    keys = await enter().bucket("aws", "minio.example", region="eu-west-1", own_ca=True)

    assert isinstance(keys, SessionKeys)


async def test_login_names_what_it_was_made_of(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.gcp.on_gke = True
    clouds.aws.node_role = "node"
    cloud = enter()

    made = [await cloud.registry("gcp", GAR), await cloud.git("aws", CODE_COMMIT)]
    again = [await cloud.registry("gcp", GAR), await cloud.git("aws", CODE_COMMIT)]

    origins = [getattr(login, "origin", None) for login in made]
    assert all(origins)
    assert [getattr(login, "origin", None) for login in again] == origins
    assert not [login for login in made if cloud.drop(login)]  # they are new
