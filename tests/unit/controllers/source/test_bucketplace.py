"""With which credentials a Bucket is asked, and which specs are refused before anybody is."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.source.bucketplace import Places
from crds.meta import LocalObjectReference, ObjectMeta
from crds.source_bucket import Bucket, BucketSpec, BucketSTS
from toolkit.errors import StalledError, TransientError
from toolkit.remote.cloud.identity import Bearer, Identity, SessionKeys
from toolkit.remote.objectstore.objectstore import (
    Anonymous,
    AzureClient,
    AzureKey,
    AzureSas,
    BearerToken,
    CredentialsError,
    GcsServiceAccount,
    LdapIdentity,
    Place,
    S3Keys,
)

LATER = datetime(2030, 1, 1, tzinfo=UTC)
SESSION = SessionKeys(access_key="A", secret_key="S", session_token="T", expires_at=LATER)


class Given:
    """Secrets by their names."""

    def __init__(self, **secrets: Mapping[str, bytes]) -> None:
        self._secrets = secrets

    async def read(self, namespace: str, name: str, *, reason: str) -> Mapping[str, bytes]:
        if name not in self._secrets:
            raise TransientError(f"Secret '{namespace}/{name}' not found", reason=reason)
        return self._secrets[name]


class Sky:
    """A cloud that notes who asked for what."""

    def __init__(self, lent: SessionKeys | Bearer = SESSION) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._lent = lent

    async def bucket(
        self, provider: str, endpoint: str, who: Identity | None = None, **more: object
    ) -> SessionKeys | Bearer:
        self.asked.append((provider, endpoint, who.name if who else None, more))
        return self._lent

    def drop(self, credential: object) -> None:
        raise AssertionError(credential)


class Accounts:
    """Accounts that all exist."""

    async def identity(self, namespace: str, account: str) -> Identity | None:
        async def token(*_: str) -> str:
            return "token"

        if not account:
            return None
        return Identity(namespace=namespace, name=account, uid="", annotations={}, token=token)


def ref(name: str) -> LocalObjectReference:
    return LocalObjectReference(name=name)


def bucket(**spec: Any) -> Bucket:
    given = {"endpoint": "s3.test", "bucket_name": "b", "interval": "1m", **spec}
    return Bucket(metadata=ObjectMeta(namespace="ns", name="app"), spec=BucketSpec(**given))


async def find(
    obj: Bucket, *, sky: Sky | None = None, plain_http: bool = True, **secrets: Mapping[str, bytes]
) -> Place:
    given: Any = Given(**secrets)
    cloud: Any = sky or Sky()
    places = Places(secrets=given, cloud=cloud, accounts=Accounts(), plain_http=plain_http)
    return (await places.find(obj)).place


async def test_without_a_secret_nobody_is_named() -> None:
    place = await find(bucket())

    assert place.credentials == Anonymous()
    assert (place.endpoint, place.bucket, place.plain_http) == ("s3.test", "b", False)


@pytest.mark.parametrize("provider", ["generic", "aws"])
async def test_keys_of_the_secret_are_used(provider: str) -> None:
    sky = Sky()

    place = await find(
        bucket(provider=provider, secret_ref=ref("keys"), region="eu-west-1"),
        sky=sky,
        keys={"accesskey": b"access\n", "secretkey": b"secret\n"},
    )

    assert place.credentials == S3Keys(access_key="access", secret_key="secret")
    assert place.region == "eu-west-1"
    assert sky.asked == []


AZURE = {"tenantId": b"t", "clientId": b"c"}


@pytest.mark.parametrize(
    ("data", "credentials"),
    [
        ({"accountKey": b"a2V5"}, AzureKey(key="a2V5")),
        ({"sasKey": b"?sig=x"}, AzureSas(token="?sig=x")),
        (
            {**AZURE, "clientSecret": b"s", "accountKey": b"a2V5"},
            AzureClient(tenant_id="t", client_id="c", secret="s"),
        ),
        (
            {**AZURE, "clientSecret": b"s", "authorityHost": b"https://login.test"},
            AzureClient(
                tenant_id="t", client_id="c", secret="s", authority_host="https://login.test"
            ),
        ),
        (
            {
                **AZURE,
                "clientCertificate": b"PEM",
                "clientCertificatePassword": b"p",
                "clientCertificateSendChain": b"true",
            },
            AzureClient(
                tenant_id="t",
                client_id="c",
                certificate=b"PEM",
                certificate_password=b"p",
                send_chain=True,
            ),
        ),
    ],
)
async def test_every_shape_of_an_azure_secret_is_read(
    data: Mapping[str, bytes], credentials: object
) -> None:
    place = await find(bucket(provider="azure", secret_ref=ref("s")), s=data)

    assert place.credentials == credentials


async def test_a_google_key_is_read() -> None:
    place = await find(
        bucket(provider="gcp", secret_ref=ref("s")), s={"serviceaccount": b'{"type": "x"}'}
    )

    assert place.credentials == GcsServiceAccount(key=b'{"type": "x"}')


@pytest.mark.parametrize(
    ("provider", "data", "told"),
    [
        ("generic", {}, "lacks 'accesskey'"),
        ("generic", {"accesskey": b"a"}, "lacks 'secretkey'"),
        ("aws", {"secretkey": b"hush"}, "lacks 'accesskey'"),
        ("generic", {"accesskey": b"a", "secretkey": b"\xff"}, "'secretkey' in the secret"),
        ("generic", {"accesskey": b"a\nb", "secretkey": b"s"}, "more than one line"),
        ("gcp", {"accesskey": b"a"}, "needs 'serviceaccount'"),
        ("azure", {}, "needs 'accountKey'"),
        ("azure", {"authorityHost": b"https://x"}, "needs 'accountKey'"),
        ("azure", {"clientId": b"c"}, "managed identity"),
        ("azure", {"tenantId": b"t", "clientId": b"c"}, "needs 'accountKey'"),
    ],
)
async def test_a_secret_of_another_shape_is_refused(
    provider: str, data: Mapping[str, bytes], told: str
) -> None:
    with pytest.raises(CredentialsError, match=told) as caught:
        await find(bucket(provider=provider, secret_ref=ref("s")), s=data)

    assert caught.value.reason == "AuthenticationFailed"
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("field", ["secret_ref", "cert_secret_ref", "proxy_secret_ref"])
async def test_a_secret_that_is_missing_is_named(field: str) -> None:
    with pytest.raises(TransientError, match="Secret 'ns/gone' not found") as caught:
        await find(bucket(**{field: ref("gone")}))

    assert caught.value.reason == "AuthenticationFailed"


async def test_an_identity_of_the_provider_is_asked_for() -> None:
    sky = Sky()

    place = await find(
        bucket(
            provider="aws",
            service_account_name="robot",
            region="eu-west-1",
            sts=BucketSTS(provider="aws", endpoint="https://sts.test"),
        ),
        sky=sky,
    )

    named = {"region": "eu-west-1", "sts": "https://sts.test", "proxy": None}
    more = named | {"own_ca": False, "plain_http": False}
    assert sky.asked == [("aws", "s3.test", "robot", more)]
    assert place.credentials == S3Keys(access_key="A", secret_key="S", session_token="T")


async def test_a_token_of_the_provider_is_used() -> None:
    lent = Bearer(token="lent", expires_at=LATER)

    place = await find(bucket(provider="gcp"), sky=Sky(lent))

    assert place.credentials == BearerToken(token="lent")


async def test_a_directory_user_is_read() -> None:
    sts = BucketSTS(
        provider="ldap",
        endpoint="https://sts.test",
        secret_ref=ref("user"),
        cert_secret_ref=ref("cert"),
    )

    place = await find(
        bucket(sts=sts), user={"username": b"jane", "password": b"p"}, cert={"ca.crt": b"CA"}
    )

    assert place.credentials == LdapIdentity(
        endpoint="https://sts.test", username="jane", password="p", ca=b"CA"
    )
    assert place.ca is None


async def test_certificates_and_proxy_are_read() -> None:
    place = await find(
        bucket(cert_secret_ref=ref("cert"), proxy_secret_ref=ref("proxy")),
        cert={"ca.crt": b"CA", "tls.crt": b"CERT", "tls.key": b"KEY"},
        proxy={"address": b"http://proxy.test:8080", "username": b"u", "password": b"hush"},
    )

    assert (place.ca, place.client_cert, place.client_key) == (b"CA", b"CERT", b"KEY")
    assert place.proxy is not None
    assert place.proxy.address == "http://proxy.test:8080"
    assert "hush" not in repr(place)


@pytest.mark.parametrize("data", [{}, {"tls.crt": b"CERT"}, {"tls.key": b"KEY", "ca.crt": b"CA"}])
async def test_half_a_certificate_is_refused(data: Mapping[str, bytes]) -> None:
    with pytest.raises(CredentialsError, match="the secret"):
        await find(bucket(cert_secret_ref=ref("cert")), cert=data)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            {"provider": "gcp", "sts": BucketSTS(provider="aws", endpoint="https://x")},
            "InvalidSTSConfiguration",
        ),
        (
            {"provider": "aws", "sts": BucketSTS(provider="ldap", endpoint="https://x")},
            "InvalidSTSConfiguration",
        ),
        (
            {"provider": "generic", "sts": BucketSTS(provider="aws", endpoint="https://x")},
            "InvalidSTSConfiguration",
        ),
        (
            {"sts": BucketSTS(provider="ldap", endpoint="https://x")},
            "InvalidSTSConfiguration",
        ),
        (
            {"sts": BucketSTS(provider="ldap", endpoint="https://[x", secret_ref=ref("s"))},
            "URLInvalid",
        ),
        (
            {
                "provider": "aws",
                "sts": BucketSTS(provider="aws", endpoint="https://x", secret_ref=ref("s")),
            },
            "InvalidSTSConfiguration",
        ),
        ({"service_account_name": "robot"}, "InvalidProviderConfiguration"),
        (
            {"provider": "aws", "service_account_name": "robot", "secret_ref": ref("s")},
            "InvalidProviderConfiguration",
        ),
    ],
)
async def test_fields_that_contradict_each_other_are_refused(
    spec: dict[str, Any], reason: str
) -> None:
    sky = Sky()

    with pytest.raises(StalledError) as caught:
        await find(bucket(**spec), sky=sky)

    assert caught.value.reason == reason
    assert sky.asked == []


async def test_plain_http_can_be_forbidden() -> None:
    with pytest.raises(StalledError, match="insecure-allow-http") as caught:
        await find(bucket(insecure=True), plain_http=False)

    assert caught.value.reason == "InsecureConnectionsDisallowed"
