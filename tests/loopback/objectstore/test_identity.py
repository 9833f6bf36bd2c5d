"""Credentials that are exchanged first: of a directory user, a Google account, an application."""

import base64
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.fakes.objectfake import Asked, FakeObjectServer, listing, saying
from tests.fakes.objectservers import ACCOUNT, ACCOUNT_KEY, AzureServer
from toolkit.remote.objectstore.objectstore import (
    AzureClient,
    AzureKey,
    AzureSas,
    BearerToken,
    Credentials,
    CredentialsError,
    GcsServiceAccount,
    LdapIdentity,
    ObjectStore,
    ObjectStoreError,
    Place,
    Provided,
    S3Keys,
)

NO_OBJECTS = {
    "generic": listing(),
    "gcp": b"{}",
    "azure": b"<EnumerationResults><Blobs/></EnumerationResults>",
}


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def pem(key: rsa.RSAPrivateKey, password: bytes | None = None) -> bytes:
    how = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def certificate(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "application")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, SHA256())
    )
    return made.public_bytes(Encoding.PEM)


class Exchange:
    """A token service and an object store in one."""

    def __init__(self, provider: str, answer: bytes, status: int = 200) -> None:
        self.answer = answer
        self.status = status
        self.server = FakeObjectServer(self._answer)
        self._provider = provider

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            return web.Response(status=self.status, body=self.answer)
        return web.Response(body=NO_OBJECTS[self._provider])

    @property
    def posted(self) -> list[dict[str, str]]:
        return [form(asked) for asked in self.server.asked if asked.method == "POST"]

    @property
    def shown(self) -> list[str]:
        asked = self.server.asked
        return [one.headers.get("authorization", "") for one in asked if one.method == "GET"]

    async def ask(self, credentials: Credentials, *, times: int = 1) -> None:
        place = Place(
            provider=self._provider,  # type: ignore[arg-type]  # one of the literals
            endpoint=f"http://{self.server.endpoint}",
            bucket="bucket",
            plain_http=True,
            credentials=credentials,
        )
        async with ObjectStore(place, timeout=5) as store:
            for _ in range(times):
                assert [found async for found in store.list()] == []


def form(asked: Asked) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}


def claims(
    assertion: str, key: rsa.RSAPrivateKey, how: padding.AsymmetricPadding
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a JWT; the signature must be that of ``key``."""
    signed, _, signature = assertion.rpartition(".")
    key.public_key().verify(decoded(signature), signed.encode(), how, SHA256())
    header, body = (json.loads(decoded(part)) for part in signed.split("."))
    return header, body


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def ldap_answer(**times: int) -> bytes:
    until = (datetime.now(UTC) + timedelta(**times)).isoformat().replace("+00:00", "Z")
    return (
        '<AssumeRoleWithLDAPIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
        "<AssumeRoleWithLDAPIdentityResult><Credentials><AccessKeyId>temporary</AccessKeyId>"
        "<SecretAccessKey>s</SecretAccessKey><SessionToken>session</SessionToken>"
        f"<Expiration>{until}</Expiration></Credentials></AssumeRoleWithLDAPIdentityResult>"
        "</AssumeRoleWithLDAPIdentityResponse>"
    ).encode()


def user(exchange: Exchange) -> LdapIdentity:
    return LdapIdentity(
        endpoint=f"http://{exchange.server.endpoint}", username="jane", password="p&ss=word"
    )


async def test_a_directory_user_gets_keys_and_they_are_used() -> None:
    exchange = Exchange("generic", ldap_answer(hours=1))
    async with exchange.server:
        await exchange.ask(user(exchange), times=3)

    assert exchange.posted == [
        {
            "Action": "AssumeRoleWithLDAPIdentity",
            "Version": "2011-06-15",
            "LDAPUsername": "jane",
            "LDAPPassword": "p&ss=word",
        }
    ]
    assert all("Credential=temporary/" in shown for shown in exchange.shown)
    assert exchange.server.asked[-1].headers["x-amz-security-token"] == "session"


async def test_keys_that_are_about_to_expire_are_exchanged_again() -> None:
    exchange = Exchange("generic", ldap_answer(seconds=60))
    async with exchange.server:
        await exchange.ask(user(exchange), times=3)

    assert len(exchange.posted) == 3


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<x/>",
        b"<a><b><Credentials/></b></a>",
        ldap_answer(hours=1).replace(b"Expiration", b"Never"),
    ],
)
async def test_an_answer_without_keys_is_told(answer: bytes) -> None:
    exchange = Exchange("generic", answer)
    async with exchange.server:
        with pytest.raises(CredentialsError, match="gave no keys") as caught:
            await exchange.ask(user(exchange))

    assert caught.value.reason == "AuthenticationFailed"


async def test_a_refused_user_is_told_without_the_password() -> None:
    exchange = Exchange("generic", b"<Error><Code>AccessDenied</Code>p&amp;ss=word</Error>", 403)
    async with exchange.server:
        with pytest.raises(CredentialsError, match="403 AccessDenied") as caught:
            await exchange.ask(user(exchange))

    assert "word" not in str(caught.value)
    assert caught.value.reason == "AuthenticationFailed"


async def test_a_password_is_not_sent_in_the_clear() -> None:
    async with FakeObjectServer(saying(200, ldap_answer(hours=1))) as fake:
        identity = LdapIdentity(endpoint=f"http://{fake.endpoint}", username="u", password="p")
        place = Place(provider="generic", endpoint="s3.test", bucket="bucket", credentials=identity)
        async with ObjectStore(place, timeout=5) as store:
            with pytest.raises(CredentialsError, match="over https:// only"):
                await store.head("key")

        assert fake.asked == []


def account(key: rsa.RSAPrivateKey, exchange: Exchange, **changed: Any) -> GcsServiceAccount:
    content = {
        "type": "service_account",
        "client_email": "robot@project.test",
        "private_key": pem(key).decode(),
        "private_key_id": "id",
        "token_uri": f"http://{exchange.server.endpoint}/token",
        **changed,
    }
    return GcsServiceAccount(key=json.dumps(content).encode())


async def test_a_google_account_gets_a_token(key: rsa.RSAPrivateKey) -> None:
    exchange = Exchange("gcp", b'{"access_token": "bought", "expires_in": 3600}')
    async with exchange.server:
        uri = f"http://{exchange.server.endpoint}/token"
        await exchange.ask(account(key, exchange), times=2)

    (posted,) = exchange.posted
    header, body = claims(posted["assertion"], key, padding.PKCS1v15())
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "id"}
    assert (body["iss"], body["aud"]) == ("robot@project.test", uri)
    assert body["exp"] - body["iat"] == 3600
    assert exchange.shown == ["Bearer bought"] * 2


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"type": "external_account"}, "type 'service_account'"),
        ({"type": "authorized_user"}, "type 'service_account'"),
        ({"private_key": "none"}, "private key"),
        ({"client_email": 1}, "JSON key"),
    ],
)
def test_a_google_key_that_is_none_is_refused_before_anything_is_asked(
    key: rsa.RSAPrivateKey, changed: dict[str, Any], told: str
) -> None:
    given = account(key, Exchange("gcp", b""), **changed)

    with pytest.raises(CredentialsError, match=told):
        ObjectStore(
            Place(
                provider="gcp",
                endpoint="storage.googleapis.com",
                bucket="bucket",
                credentials=given,
            )
        )


def application(exchange: Exchange, **proof: Any) -> AzureClient:
    return AzureClient(
        tenant_id="tenant",
        client_id="client",
        authority_host=f"http://{exchange.server.endpoint}/",
        **proof,
    )


async def test_an_application_with_a_secret_gets_a_token() -> None:
    exchange = Exchange("azure", b'{"access_token": "bought", "expires_in": 3600}')
    async with exchange.server:
        await exchange.ask(application(exchange, secret="hush"), times=2)

    assert exchange.server.asked[0].target == "/tenant/oauth2/v2.0/token"
    assert exchange.posted == [
        {
            "grant_type": "client_credentials",
            "client_id": "client",
            "scope": "https://storage.azure.com/.default",
            "client_secret": "hush",
        }
    ]
    assert exchange.shown == ["Bearer bought"] * 2


@pytest.mark.parametrize("password", [None, b"pass"])
@pytest.mark.parametrize("order", [lambda k, c: k + c, lambda k, c: c + k])
async def test_an_application_with_a_certificate_gets_a_token(
    key: rsa.RSAPrivateKey, password: bytes | None, order: Callable[[bytes, bytes], bytes]
) -> None:
    exchange = Exchange("azure", b'{"access_token": "bought", "expires_in": 3600}')
    both = order(pem(key, password), certificate(key))
    async with exchange.server:
        given = application(exchange, certificate=both, certificate_password=password)
        await exchange.ask(replace(given, send_chain=True))

    (posted,) = exchange.posted
    header, body = claims(posted["client_assertion"], key, padding.PSS(padding.MGF1(SHA256()), 32))
    assert body["iss"] == body["sub"] == "client"
    assert body["aud"].endswith("/tenant/oauth2/v2.0/token")
    assert "x5t" in header
    assert len(header["x5c"]) == 1


async def test_a_refused_application_is_told_without_its_secret() -> None:
    exchange = Exchange("azure", b'{"error": "invalid_client hush"}', 401)
    async with exchange.server:
        with pytest.raises(CredentialsError, match="401") as caught:
            await exchange.ask(application(exchange, secret="hush"))

    assert "hush" not in str(caught.value)


async def test_a_token_service_that_is_down_is_no_fault_of_the_credentials() -> None:
    exchange = Exchange("azure", b"", 503)
    async with exchange.server:
        with pytest.raises(ObjectStoreError, match="503") as caught:
            await exchange.ask(application(exchange, secret="hush"))

    assert not isinstance(caught.value, CredentialsError)


async def test_provided_credentials_are_asked_for_each_time() -> None:
    tokens = iter(["first", "second"])

    async def get() -> BearerToken:
        return BearerToken(token=next(tokens))

    exchange = Exchange("gcp", b"")
    async with exchange.server:
        await exchange.ask(Provided(get=get), times=2)

    assert exchange.shown == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    ("provider", "credentials"),
    [
        ("generic", BearerToken(token="t")),
        ("gcp", S3Keys(access_key="a", secret_key="s")),
        ("azure", S3Keys(access_key="a", secret_key="s")),
        ("azure", AzureKey(key="not base64!")),
    ],
)
async def test_credentials_of_another_kind_are_refused(
    provider: str, credentials: Credentials
) -> None:
    exchange = Exchange(provider, b"")
    async with exchange.server:
        with pytest.raises(CredentialsError):
            await exchange.ask(credentials)

        assert exchange.server.asked == []


def shared_access(container: str, permissions: str) -> str:
    """Sign a service SAS for a container ("Create a service SAS", version 2020-12-06)."""
    until = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    resource = f"/blob/{ACCOUNT}/{container}"
    lines = [permissions, "", until, resource, "", "", "", "2020-12-06", "c", *[""] * 7]
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), "\n".join(lines).encode(), "sha256")
    signature = quote(base64.b64encode(digest).decode(), safe="")
    return f"?sp={permissions}&se={quote(until)}&sv=2020-12-06&sr=c&sig={signature}"


async def test_a_shared_access_signature_opens_what_it_is_for(azure: AzureServer) -> None:
    place = await azure.place()
    async with ObjectStore(place) as store:
        await store.write_bytes("a b/ü", b"1")
    token = shared_access(place.bucket, "rl")

    async with ObjectStore(replace(place, credentials=AzureSas(token=token))) as store:
        assert [found.key async for found in store.list()] == ["a b/ü"]
        assert (await store.head("a b/ü")).size == 1
        with pytest.raises(ObjectStoreError, match="403") as caught:
            await store.write_bytes("other", b"1")

    assert "sig" not in str(caught.value)


@pytest.mark.parametrize("token", ["a\\nX-Evil: 1", "a\\u0000"])
async def test_a_token_that_would_forge_a_header_is_not_sent(token: str) -> None:
    exchange = Exchange("azure", f'{{"access_token": "{token}", "expires_in": 60}}'.encode())
    async with exchange.server:
        with pytest.raises(CredentialsError, match="no header can carry"):
            await exchange.ask(application(exchange, secret="hush"))

    assert exchange.shown == []


@pytest.mark.parametrize("authority", ["https://[x", "ftp://login.test", "https://u:p@login.test"])
async def test_an_authority_that_is_no_url_is_refused(authority: str) -> None:
    exchange = Exchange("azure", b"")
    async with exchange.server:
        given = replace(application(exchange, secret="hush"), authority_host=authority)
        with pytest.raises(CredentialsError, match="not a URL"):
            await exchange.ask(given)
