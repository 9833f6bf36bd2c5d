"""Provider gcp: whom Google takes us for, and who sees the token."""

import json
from pathlib import Path

import pytest

from tests.fakes.cloudgcp import CLUSTER, GKE_AUDIENCE, POOL
from tests.fakes.clouds import ISSUER, FakeClouds, MakeCloud
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.identity import Bearer, ClusterName, Identity

REGISTRY = "europe-west1-docker.pkg.dev"
NAME = "projects/123/locations/global/workloadIdentityPools/fleet/providers/far"
AUDIENCE = f"//iam.googleapis.com/{NAME}"
EMAIL = "deployer@fleet.iam.gserviceaccount.com"
SUBJECT = "system:serviceaccount:team:app"


def on_gke(clouds: FakeClouds, **annotations: str) -> Identity:
    """Run on GKE, and return a ServiceAccount there."""
    clouds.gcp.on_gke = True
    clouds.gcp.providers[GKE_AUDIENCE] = (ISSUER.url, POOL)
    return ISSUER.identity(annotations=annotations)


def elsewhere(clouds: FakeClouds, provider: str = NAME) -> Identity:
    """Run on a cluster whose issuer is registered with a provider."""
    clouds.gcp.providers[AUDIENCE] = (ISSUER.url, AUDIENCE)
    return ISSUER.identity(annotations={"gcp.auth.fluxcd.io/workload-identity-provider": provider})


async def test_account_of_gke_logs_in_as_itself(clouds: FakeClouds, enter: MakeCloud) -> None:
    login = await enter().registry("gcp", REGISTRY, on_gke(clouds))

    assert login.username == "oauth2accesstoken"
    assert clouds.gcp.tokens[login.password] == SUBJECT
    assert ISSUER.given[-1] == (POOL,)


async def test_account_may_become_one_of_google_s(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.gcp.accounts[EMAIL] = SUBJECT
    who = on_gke(clouds, **{"iam.gke.io/gcp-service-account": EMAIL})

    login = await enter().registry("gcp", "eu.gcr.io", who)

    assert clouds.gcp.tokens[login.password] == EMAIL


async def test_account_that_may_not_become_it_is_told(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.gcp.accounts[EMAIL] = "system:serviceaccount:other:app"
    who = on_gke(clouds, **{"iam.gke.io/gcp-service-account": EMAIL})

    with pytest.raises(CloudError, match=f"'team/app' may not become '{EMAIL}'"):
        await enter().registry("gcp", REGISTRY, who)


@pytest.mark.parametrize("prefix", ["", "//iam.googleapis.com/", "https://iam.googleapis.com/"])
async def test_account_of_another_cluster_enters_by_its_provider(
    clouds: FakeClouds, enter: MakeCloud, prefix: str
) -> None:
    login = await enter().registry("gcp", REGISTRY, elsewhere(clouds, prefix + NAME))

    assert clouds.gcp.tokens[login.password] == SUBJECT
    assert ISSUER.given[-1] == (AUDIENCE,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gcp.auth.fluxcd.io/workload-identity-provider", "https://evil.example/x"),
        ("gcp.auth.fluxcd.io/workload-identity-provider", f"{NAME}/../x"),
        ("iam.gke.io/gcp-service-account", "x@evil.example/y"),
        ("iam.gke.io/gcp-service-account", f"{EMAIL}:generateIdToken?"),
    ],
)
async def test_annotation_cannot_lead_elsewhere(
    clouds: FakeClouds, enter: MakeCloud, name: str, value: str
) -> None:
    who = ISSUER.identity(annotations={name: value})

    with pytest.raises(CloudError, match=f"annotation '{name}' of ServiceAccount 'team/app'"):
        await enter().registry("gcp", REGISTRY, who)

    assert not clouds.dialled


async def test_account_needs_a_provider_where_there_is_no_gke(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    with pytest.raises(CloudError, match=r"has no annotation 'gcp\.auth\.fluxcd\.io/workload"):
        await enter().registry("gcp", REGISTRY, ISSUER.identity())

    assert not clouds.dialled


@pytest.mark.parametrize(
    "host", ["evil.example", "gcr.io.evil.example", "x-docker.pkg.dev.evil.example", "notgcr.io"]
)
async def test_registry_that_is_not_google_s_gets_nothing(
    clouds: FakeClouds, enter: MakeCloud, host: str
) -> None:
    with pytest.raises(ForeignHostError):
        await enter().registry("gcp", host, on_gke(clouds))

    assert not clouds.dialled


@pytest.mark.parametrize(
    "endpoint",
    [
        "evil.example",
        "storage.googleapis.com.evil.example",
        "https://storage.googleapis.com@evil.example",
        "http://storage.googleapis.com",
        "https://evil.example/storage.googleapis.com",
    ],
)
async def test_endpoint_that_is_not_google_s_gets_nothing(
    clouds: FakeClouds, enter: MakeCloud, endpoint: str
) -> None:
    with pytest.raises(ForeignHostError):
        await enter().bucket("gcp", endpoint, on_gke(clouds))

    assert not clouds.dialled


async def test_bucket_is_read_as_the_account(clouds: FakeClouds, enter: MakeCloud) -> None:
    token = await enter().bucket("gcp", "storage.googleapis.com", on_gke(clouds))

    assert isinstance(token, Bearer)
    assert clouds.gcp.tokens[token.token] == SUBJECT


async def test_operator_s_emulator_may_see_the_token(clouds: FakeClouds, enter: MakeCloud) -> None:
    who = on_gke(clouds)
    cloud = enter(STORAGE_EMULATOR_HOST="http://127.0.0.1:4443")

    token = await cloud.bucket("gcp", "http://127.0.0.1:4443", who)

    assert isinstance(token, Bearer)
    with pytest.raises(ForeignHostError):
        await enter().bucket("gcp", "http://127.0.0.1:4443", who)


async def test_node_s_account_is_used_without_another(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.gcp.on_gke = True

    login = await enter().registry("gcp", REGISTRY)

    assert clouds.gcp.tokens[login.password].startswith("node@")


async def test_federation_of_the_process_is_used(
    clouds: FakeClouds, enter: MakeCloud, tmp_path: Path
) -> None:
    elsewhere(clouds)
    clouds.gcp.accounts[EMAIL] = "system:serviceaccount:penstock:source-controller"
    (tmp_path / "token").write_text(
        json.dumps({"jwt": ISSUER.sign("penstock", "source-controller", AUDIENCE)})
    )
    file = tmp_path / "credentials.json"
    url = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
    credentials = {
        "type": "external_account",
        "audience": AUDIENCE,
        "token_url": "https://evil.example",  # not asked: Google's is known
        "service_account_impersonation_url": f"{url}{EMAIL}:generateAccessToken",
        "credential_source": {
            "file": str(tmp_path / "token"),
            "format": {"type": "json", "subject_token_field_name": "jwt"},
        },
    }
    file.write_text(json.dumps(credentials))

    login = await enter(GOOGLE_APPLICATION_CREDENTIALS=str(file)).registry("gcp", REGISTRY)

    assert clouds.gcp.tokens[login.password] == EMAIL


async def test_key_in_a_file_is_not_read(
    clouds: FakeClouds, enter: MakeCloud, tmp_path: Path
) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps({"type": "service_account", "private_key": "hush"}))

    with pytest.raises(CloudError, match="keys are not read"):
        await enter(GOOGLE_APPLICATION_CREDENTIALS=str(file)).registry("gcp", REGISTRY)

    assert not clouds.requests


async def test_google_has_no_git(clouds: FakeClouds, enter: MakeCloud) -> None:
    with pytest.raises(ForeignHostError, match="no Git"):
        await enter().git("gcp", "https://source.developers.google.com/p", on_gke(clouds))


@pytest.mark.parametrize(
    ("address", "server", "ca"),
    [
        ("", "https://34.1.2.3", b"the CA"),
        ("https://10.0.0.2", "https://10.0.0.2", b"the CA"),
        ("gke-1.gke.goog", "https://gke-1.gke.goog", None),
    ],
)
async def test_gke_cluster_is_entered_by_any_of_its_endpoints(
    clouds: FakeClouds, enter: MakeCloud, address: str, server: str, ca: bytes | None
) -> None:
    clouds.gcp.clusters[CLUSTER] = clouds.gcp.cluster(
        "34.1.2.3", "the CA", private="10.0.0.2", dns="gke-1.gke.goog"
    )
    named = ClusterName(cluster=CLUSTER, address=address)

    access = await enter().cluster("gcp", named, on_gke(clouds))

    assert (access.server, access.ca) == (server, ca)
    assert clouds.gcp.tokens[access.token] == SUBJECT


async def test_token_is_sent_to_no_address_that_google_does_not_know(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    clouds.gcp.clusters[CLUSTER] = clouds.gcp.cluster("34.1.2.3", "the CA")
    named = ClusterName(cluster=CLUSTER, address="https://169.254.169.254", ca=b"mine")

    with pytest.raises(CloudError, match=r"no endpoint 'https://169.254.169.254'.*34\.1\.2\.3"):
        await enter().cluster("gcp", named, on_gke(clouds))
