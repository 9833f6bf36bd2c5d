"""Provider aws: whom AWS takes us for, and who sees what."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.fakes.clouds import ISSUER, FakeClouds, MakeCloud
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.identity import Bearer, ClusterName, Identity, Login, SessionKeys

ROLE = "arn:aws:iam::111122223333:role/team"
REGISTRY = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
STS = "sts.eu-west-1.amazonaws.com"
CLUSTER = ClusterName(cluster="arn:aws:eks:eu-west-1:111122223333:cluster/far")


def team(clouds: FakeClouds, *, role: str = ROLE, subject: str = "team:app") -> Identity:
    """Let a ServiceAccount assume a role, and return it."""
    clouds.aws.roles[ROLE] = (ISSUER.url, f"system:serviceaccount:{subject}")
    return ISSUER.identity(annotations={"eks.amazonaws.com/role-arn": role})


async def test_account_with_a_role_logs_in_to_its_registry(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    login = await enter().registry("aws", REGISTRY, team(clouds))

    assert login == Login(username="AWS", password=f"login-of-{ROLE}", expires_at=login.expires_at)
    assert clouds.asked(STS) == 1
    session = next(iter(clouds.aws.sessions.values()))
    assert session.name == "app.team.eu-west-1.penstock.dev"
    assert ISSUER.given[-1] == ("sts.amazonaws.com",)


async def test_public_gallery_is_asked_in_its_only_region(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    await enter().registry("aws", "public.ecr.aws", team(clouds))

    assert clouds.asked("api.ecr-public.us-east-1.amazonaws.com") == 1
    assert clouds.asked("sts.us-east-1.amazonaws.com") == 1


async def test_partition_of_the_region_decides_the_domain(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    keys = await enter().bucket(
        "aws", "s3.cn-north-1.amazonaws.com.cn", team(clouds), region="cn-north-1"
    )

    assert isinstance(keys, SessionKeys)
    assert clouds.asked("sts.cn-north-1.amazonaws.com.cn") == 1


async def test_account_that_the_role_does_not_trust_is_refused_by_name(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    stranger = team(clouds, subject="other:app")

    with pytest.raises(CloudError, match=f"'team/app' may not assume the role '{ROLE}'") as caught:
        await enter().registry("aws", REGISTRY, stranger)

    assert "eyJ" not in str(caught.value)


async def test_token_for_another_audience_buys_nothing(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    real = team(clouds)

    async def other(*_: str) -> str:
        return ISSUER.sign("team", "app", "api://AzureADTokenExchange")

    confused = Identity(
        namespace="team", name="app", uid="u", annotations=real.annotations, token=other
    )

    with pytest.raises(CloudError, match="may not assume"):
        await enter().registry("aws", REGISTRY, confused)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({}, "has no annotation 'eks.amazonaws.com/role-arn'"),
        ({"eks.amazonaws.com/role-arn": "https://evil.example/role"}, "is not the ARN of a role"),
        ({"eks.amazonaws.com/role-arn": f"{ROLE}&Action=X"}, "is not the ARN of a role"),
    ],
)
async def test_annotation_that_names_no_role_is_explained(
    clouds: FakeClouds, enter: MakeCloud, annotations: dict[str, str], message: str
) -> None:
    with pytest.raises(CloudError, match="'team/app'") as caught:
        await enter().registry("aws", REGISTRY, ISSUER.identity(annotations=annotations))

    assert message in str(caught.value)
    assert not clouds.dialled


@pytest.mark.parametrize(
    "host",
    [
        "registry.example",
        "111122223333.dkr.ecr.eu-west-1.amazonaws.com.evil.example",
        "111122223333.dkr.ecr.evil.example/.amazonaws.com",
        "111122223333.dkr.ecr.evil-1.amazonaws.com.cn",
        "111122223333.dkr.ecr.x#.amazonaws.com",
        "ghcr.io",
    ],
)
async def test_registry_that_is_not_of_aws_gets_nothing(
    clouds: FakeClouds, enter: MakeCloud, host: str
) -> None:
    with pytest.raises(ForeignHostError):
        await enter().registry("aws", host, team(clouds))

    assert not clouds.dialled


@pytest.mark.parametrize("region", ["evil.example/", "x", "eu-west-1.evil.example", "169.254.1-1"])
async def test_region_cannot_lead_elsewhere(
    clouds: FakeClouds, enter: MakeCloud, region: str
) -> None:
    with pytest.raises(ForeignHostError, match="region"):
        await enter().bucket("aws", "s3.amazonaws.com", team(clouds), region=region)

    assert not clouds.dialled


@pytest.mark.parametrize(
    "sts",
    [
        "https://evil.example",
        "https://sts.evil.example/?.amazonaws.com",
        "http://sts.eu-west-1.amazonaws.com",
        "https://sts-evil.eu-west-1.elb.amazonaws.com",
        "https://sts.eu-west-1.amazonaws.com:8443",
        "https://user@evil.example#.sts.amazonaws.com",
        "https://bucket.s3.amazonaws.com",
        "http://169.254.169.254",
    ],
)
async def test_token_goes_to_no_endpoint_of_a_tenant(
    clouds: FakeClouds, enter: MakeCloud, sts: str
) -> None:
    with pytest.raises(ForeignHostError, match="not an STS endpoint"):
        await enter().bucket("aws", "s3", team(clouds), region="eu-west-1", sts=sts)

    assert not clouds.dialled


async def test_sts_endpoint_of_aws_may_be_chosen(clouds: FakeClouds, enter: MakeCloud) -> None:
    sts = "https://sts.us-east-1.amazonaws.com"

    await enter().bucket("aws", "s3", team(clouds), region="eu-west-1", sts=sts)

    assert clouds.dialled == ["sts.us-east-1.amazonaws.com:443"]


async def test_operator_may_name_other_endpoints(clouds: FakeClouds, enter: MakeCloud) -> None:
    cloud = enter(AWS_ENDPOINT_URL_STS="https://sts.us-east-1.amazonaws.com")

    await cloud.bucket("aws", "s3", team(clouds), region="eu-west-1")

    assert clouds.asked("sts.us-east-1.amazonaws.com") == 1


async def test_web_identity_of_the_process_is_used(
    clouds: FakeClouds, enter: MakeCloud, tmp_path: Path
) -> None:
    team(clouds, subject="penstock:source-controller")
    file = tmp_path / "token"
    file.write_text(ISSUER.sign("penstock", "source-controller", "sts.amazonaws.com"))
    cloud = enter(AWS_WEB_IDENTITY_TOKEN_FILE=str(file), AWS_ROLE_ARN=ROLE)

    login = await cloud.registry("aws", REGISTRY)

    assert login.password == f"login-of-{ROLE}"


async def test_missing_token_file_is_named_with_its_variable(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    cloud = enter(AWS_WEB_IDENTITY_TOKEN_FILE="/nowhere", AWS_ROLE_ARN=ROLE)

    with pytest.raises(CloudError, match="'/nowhere', which AWS_WEB_IDENTITY_TOKEN_FILE names"):
        await cloud.registry("aws", REGISTRY)

    assert not clouds.dialled


async def test_pod_identity_is_used_with_its_token(
    clouds: FakeClouds, enter: MakeCloud, tmp_path: Path
) -> None:
    clouds.aws.container_token = "of-the-pod"
    file = tmp_path / "token"
    file.write_text("of-the-pod\n")
    cloud = enter(
        AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{clouds.node}/container",
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(file),
    )

    login = await cloud.registry("aws", REGISTRY)

    assert login.password == "login-of-arn:aws:iam::111122223333:role/pod"


async def test_container_credentials_are_fetched_from_no_host_in_the_clear(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    cloud = enter(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://evil.example/container")

    with pytest.raises(CloudError, match="must be https"):
        await cloud.registry("aws", REGISTRY)

    assert not clouds.requests


async def test_node_is_asked_with_its_own_token(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.aws.node_role = "node"

    keys = await enter().bucket("aws", "s3.eu-west-1.amazonaws.com")

    assert isinstance(keys, SessionKeys)
    assert [(r.method, urlsplit(r.path).path) for r in clouds.requests if r.method == "PUT"]
    assert clouds.aws.sessions[keys.access_key].arn.endswith("role/node")


async def test_node_s_services_are_not_asked_through_an_object_s_proxy(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    clouds.aws.node_role = "node"

    await enter().registry("aws", REGISTRY, proxy=clouds.proxy)

    assert clouds.asked("node") > 0
    assert all(target.endswith(".amazonaws.com:443") for target in clouds.dialled)


async def test_process_without_an_identity_is_told_what_to_do(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    with pytest.raises(CloudError, match="this process has no identity at AWS: give"):
        await enter().registry("aws", REGISTRY)

    assert clouds.asked("node") == 2


async def test_metadata_service_may_be_off_limits(clouds: FakeClouds, enter: MakeCloud) -> None:
    with pytest.raises(CloudError, match="this process has no identity"):
        await enter(AWS_EC2_METADATA_DISABLED="true").registry("aws", REGISTRY)

    assert not clouds.requests


async def test_codecommit_is_entered_with_a_signature(clouds: FakeClouds, enter: MakeCloud) -> None:
    url = "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet"

    login = await enter().git("aws", url, team(clouds))

    assert isinstance(login, Login)
    key, _, token = login.username.partition("%")
    assert token == clouds.aws.sessions[key].token
    clouds.aws.check_git(key, login.password, url)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/org/repo",
        "http://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet",
        "https://git-codecommit.eu-west-1.amazonaws.com.evil.example/v1/repos/fleet",
        "https://git-codecommit.eu-west-1.amazonaws.com@evil.example/v1/repos/fleet",
    ],
)
async def test_repository_that_is_not_of_codecommit_gets_nothing(
    clouds: FakeClouds, enter: MakeCloud, url: str
) -> None:
    with pytest.raises(ForeignHostError, match="CodeCommit"):
        await enter().git("aws", url, team(clouds))

    assert not clouds.dialled


async def test_eks_cluster_is_found_and_entered(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.aws.clusters["far"] = ("https://ABC.gr7.eu-west-1.eks.amazonaws.com", "the CA")

    access = await enter().cluster("aws", CLUSTER, team(clouds))

    assert access.server == "https://abc.gr7.eu-west-1.eks.amazonaws.com"
    assert access.ca == b"the CA"
    assert clouds.aws.caller(access.token, cluster="far") == ROLE


async def test_address_that_the_cluster_does_not_have_gets_no_token(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    clouds.aws.clusters["far"] = ("https://abc.eks.amazonaws.com", "the CA")
    named = ClusterName(cluster=CLUSTER.cluster, address="https://evil.example")

    with pytest.raises(CloudError, match=r"has no endpoint 'https://evil\.example'.*abc\.eks"):
        await enter().cluster("aws", named, team(clouds))


async def test_cluster_that_does_not_exist_is_named(clouds: FakeClouds, enter: MakeCloud) -> None:
    with pytest.raises(CloudError, match=f"cannot describe the EKS cluster '{CLUSTER.cluster}'"):
        await enter().cluster("aws", CLUSTER, team(clouds))


@pytest.mark.parametrize(
    "name", ["far", "arn:aws:eks:evil.example/:1:cluster/x", "arn:aws:eks:eu-west-1:1:cluster/../x"]
)
async def test_cluster_s_name_cannot_lead_elsewhere(
    clouds: FakeClouds, enter: MakeCloud, name: str
) -> None:
    with pytest.raises(ForeignHostError, match="not the ARN"):
        await enter().cluster("aws", ClusterName(cluster=name), team(clouds))

    assert not clouds.dialled


def test_secrets_do_not_show() -> None:
    end = datetime.max.replace(tzinfo=UTC)
    values = (
        SessionKeys(access_key="A", secret_key="hush", session_token="hush", expires_at=end),
        Login(username="u", password="hush", expires_at=end),
        Bearer(token="hush", expires_at=end),
    )

    assert not [value for value in values if "hush" in repr(value)]
