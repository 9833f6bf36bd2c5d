"""Whom the client trusts, what it shows, and that nothing of this process's own is shown."""

import json
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from tests.fakes.objectfake import FakeObjectServer, listing, saying
from tests.fakes.serving import certified
from toolkit.remote.objectstore.objectstore import (
    Anonymous,
    AzureKey,
    Credentials,
    CredentialsError,
    ObjectStore,
    ObjectStoreError,
    Place,
    PlaceError,
    S3Keys,
)
from toolkit.remote.proxy import Proxy

KEYS = S3Keys(access_key="access", secret_key="secret")
GCS_LISTING = json.dumps({"items": []}).encode()
AZURE_LISTING = b"<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>"


def place(
    fake: FakeObjectServer, credentials: Credentials | None = None, **fields: object
) -> Place:
    base = Place(
        provider="generic",
        endpoint=fake.endpoint,
        bucket="bucket",
        plain_http=True,
        credentials=credentials or Anonymous(),
    )
    return replace(base, **fields)  # type: ignore[arg-type]  # a test's shorthand


async def ask(where: Place) -> list[str]:
    async with ObjectStore(where, timeout=5) as store:
        return [found.key async for found in store.list()]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def pem(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


async def test_a_server_with_a_given_ca_is_trusted(authority: trustme.CA) -> None:
    async with FakeObjectServer(
        saying(200, listing()), tls=certified(authority, "127.0.0.1")
    ) as fake:
        found = await ask(place(fake, plain_http=False, ca=pem(authority)))

    assert found == []


async def test_a_server_that_nobody_vouches_for_is_not_asked(authority: trustme.CA) -> None:
    async with FakeObjectServer(
        saying(200, listing()), tls=certified(authority, "127.0.0.1")
    ) as fake:
        for ca in (None, pem(trustme.CA())):
            with pytest.raises(ObjectStoreError, match="certificate is not trusted"):
                await ask(place(fake, KEYS, plain_http=False, ca=ca))

        assert fake.asked == []


async def test_a_client_certificate_is_shown(authority: trustme.CA) -> None:
    client = authority.issue_cert("client.test")
    tls = certified(authority, "127.0.0.1", clients=ssl.CERT_REQUIRED)
    async with FakeObjectServer(saying(200, listing(("a", "1", 1))), tls=tls) as fake:
        trusted = place(fake, KEYS, plain_http=False, ca=pem(authority))
        with pytest.raises(ObjectStoreError):
            await ask(trusted)
        found = await ask(
            replace(
                trusted,
                client_cert=client.cert_chain_pems[0].bytes(),
                client_key=client.private_key_pem.bytes(),
            )
        )

    assert found == ["a"]


@pytest.mark.parametrize("field", ["ca", "client_cert"])
async def test_certificates_that_are_none_are_told(field: str) -> None:
    given = {field: b"no pem", "client_key": b"no pem"}
    where = Place(provider="generic", endpoint="s3.test", bucket="bucket", **given)  # type: ignore[arg-type]

    with pytest.raises(CredentialsError, match="PEM"):
        ObjectStore(where)


async def test_requests_go_through_the_proxy_that_is_given() -> None:
    async with FakeObjectServer(saying(200, listing(("a", "1", 1)))) as proxy:
        given = Proxy(address=f"http://{proxy.endpoint}", username="user", password="pass")
        where = Place(
            provider="generic",
            endpoint="s3.test",
            bucket="bucket",
            plain_http=True,
            proxy=given,
        )
        found = await ask(where)

    assert found == ["a"]
    assert proxy.asked[0].target.startswith("http://s3.test/bucket?")
    assert proxy.asked[0].headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"


async def test_a_proxy_that_is_not_there_is_told_without_its_password() -> None:
    gone = Proxy(address="http://127.0.0.1:1", username="user", password="hush")
    where = Place(
        provider="generic", endpoint="s3.test", bucket="bucket", plain_http=True, proxy=gone
    )

    with pytest.raises(ObjectStoreError, match="no connection") as caught:
        await ask(where)

    assert "hush" not in str(caught.value)


PROVIDERS: dict[str, tuple[Credentials, bytes]] = {
    "generic": (KEYS, listing()),
    "aws": (KEYS, listing()),
    "gcp": (Anonymous(), GCS_LISTING),
    "azure": (AzureKey(key="c2VjcmV0"), AZURE_LISTING),
}


# What clients of object stores read from their environment, by prefix.
VARIABLES = {
    "AWS": """
        ACCESS_KEY_ID BUCKET BUCKET_NAME CHECKSUM_ALGORITHM CONDITIONAL_PUT
        CONTAINER_AUTHORIZATION_TOKEN_FILE CONTAINER_CREDENTIALS_FULL_URI
        CONTAINER_CREDENTIALS_RELATIVE_URI COPY_IF_NOT_EXISTS DEFAULT_REGION
        DISABLE_BULK_DELETE DISABLE_TAGGING ENDPOINT ENDPOINT_URL ENDPOINT_URL_S3
        IMDSV1_FALLBACK METADATA_ENDPOINT REGION REQUESTER_PAYS REQUEST_PAYER ROLE_ARN
        ROLE_SESSION_NAME S3_EXPRESS SECRET_ACCESS_KEY SERVER_SIDE_ENCRYPTION
        SESSION_TOKEN SKIP_SIGNATURE SSE_BUCKET_KEY_ENABLED SSE_CUSTOMER_KEY_BASE64
        SSE_KMS_KEY_ID STS_ENDPOINT TOKEN UNSIGNED_PAYLOAD VIRTUAL_HOSTED_STYLE_REQUEST
        WEB_IDENTITY_TOKEN_FILE
    """,
    "AZURE": """
        AUTHORITY_HOST AUTHORITY_ID CLIENT_ID CLIENT_SECRET CONTAINER_NAME CREDENTIAL_TYPE
        DISABLE_TAGGING ENCRYPTION_KEY ENDPOINT FABRIC_CLUSTER_IDENTIFIER
        FABRIC_SESSION_TOKEN FABRIC_TOKEN_SERVICE_URL FABRIC_WORKLOAD_HOST
        FEDERATED_TOKEN_FILE IDENTITY_ENDPOINT MSI_ENDPOINT MSI_RESOURCE_ID OBJECT_ID
        SKIP_SIGNATURE STORAGE_ACCESS_KEY STORAGE_ACCOUNT_KEY STORAGE_ACCOUNT_NAME
        STORAGE_AUTHORITY_HOST STORAGE_AUTHORITY_ID STORAGE_CLIENT_ID
        STORAGE_CLIENT_SECRET STORAGE_ENDPOINT STORAGE_MASTER_KEY STORAGE_SAS_KEY
        STORAGE_SAS_TOKEN STORAGE_TENANT_ID STORAGE_TOKEN STORAGE_USE_EMULATOR TENANT_ID
        USE_AZURE_CLI
    """,
    "GOOGLE": """
        APPLICATION_CREDENTIALS BASE_URL BEARER_TOKEN BUCKET BUCKET_NAME SERVICE_ACCOUNT
        SERVICE_ACCOUNT_KEY SERVICE_ACCOUNT_PATH SKIP_SIGNATURE
    """,
}


def variables() -> list[str]:
    return [f"{prefix}_{name}" for prefix, names in VARIABLES.items() for name in names.split()]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("signs", [False, True])
async def test_nothing_of_the_environment_is_ever_used(
    provider: str,
    signs: bool,  # noqa: FBT001  # a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    credentials, answer = PROVIDERS[provider]
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login process password process\n")
    async with FakeObjectServer(saying(200, answer)) as fake:
        where = place(fake, credentials if signs else Anonymous(), provider=provider)
        if provider == "azure":
            where = replace(where, endpoint=f"http://{fake.endpoint}/account")
        await ask(where)
        for name in variables():
            monkeypatch.setenv(name, "process")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        await ask(where)

    assert len(variables()) > 50
    clean, poisoned = fake.asked
    assert without_time(clean.headers) == without_time(poisoned.headers)
    assert clean.target == poisoned.target
    assert "process" not in str(poisoned)
    assert ("authorization" in poisoned.headers) == (signs and provider != "gcp")


def without_time(headers: dict[str, str]) -> dict[str, str]:
    unstable = {"authorization", "x-amz-date", "x-ms-date"}
    return {name: value for name, value in headers.items() if name not in unstable}


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://s3.test",
        "ftp://s3.test",
        "https://user:pass@s3.test",
        "https://s3.test/?sig=secret",
        "https://s3.test/#x",
        "s3.test:99999",
        "s3 .test",
        "",
        "://",
        "[::1",
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_refused(endpoint: str) -> None:
    with pytest.raises(PlaceError) as caught:
        _ = Place(provider="generic", endpoint=endpoint, bucket="bucket").base

    assert caught.value.reason == "URLInvalid"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bucket", ["", "..", "a/b", "a b", "a?b", "-a", "a" * 300, "a\n"])
def test_a_bucket_name_that_is_none_is_refused(bucket: str) -> None:
    with pytest.raises(PlaceError, match="not a bucket's name"):
        _ = Place(provider="generic", endpoint="s3.test", bucket=bucket).base


def test_a_region_that_is_none_is_refused() -> None:
    with pytest.raises(PlaceError, match="region"):
        _ = Place(provider="aws", endpoint="s3.test", bucket="b", region="x\r\nX: 1").base
