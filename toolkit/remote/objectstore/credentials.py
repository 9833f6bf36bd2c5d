"""Credentials that have to be exchanged before they sign anything, and kept until they expire.

Three exchanges: a directory user for keys (MinIO), a Google service account for a token (RFC 7523),
an application of Entra ID for a token (OAuth 2 client credentials, with a secret or a certificate).
"""

import asyncio
import hashlib
import json
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from toolkit import untrusted
from toolkit.remote import rsakeys
from toolkit.remote.objectstore import encryptedkey, xml
from toolkit.remote.objectstore.dialect import encode
from toolkit.remote.objectstore.errors import CredentialsError, ObjectStoreError, PlaceError
from toolkit.remote.objectstore.http import Request, Subject, Wire
from toolkit.remote.objectstore.place import (
    AzureClient,
    BearerToken,
    Credentials,
    Direct,
    GcsServiceAccount,
    LdapIdentity,
    Place,
    Provided,
    S3Keys,
    split,
)

_EARLY_SECONDS: Final = 120.0
"""Credentials are renewed this long before they expire."""

_GCS_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_AZURE_SCOPE: Final = "https://storage.azure.com/.default"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MAX_JSON: Final = 1 << 20
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    credentials: Direct
    until: float


class Keyring:
    """Returns the credentials for a request; one caller at a time exchanges them."""

    def __init__(
        self, place: Place, wire: Wire, *, patience: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._place = place
        self._wire = wire
        self._clock = clock
        self._patience = patience
        self._turn = asyncio.Lock()
        self._kept: _Kept | None = None

    async def get(self) -> Direct:
        """Return usable credentials; the caller sets deadline and patience.

        Raises:
            CredentialsError: the exchange was refused or is invalid.
            ObjectStoreError: the service for the exchange cannot be reached.
        """
        given = self._place.credentials
        if isinstance(given, Provided):
            return await given.get()
        if not isinstance(given, LdapIdentity | GcsServiceAccount | AzureClient):
            return given
        async with self._turn:
            if self._kept is None or self._kept.until <= self._clock() + _EARLY_SECONDS:
                self._kept = await self._exchange(given)
            return self._kept.credentials

    async def _exchange(self, given: LdapIdentity | GcsServiceAccount | AzureClient) -> _Kept:
        match given:
            case LdapIdentity():
                return await self._ldap(given)
            case GcsServiceAccount():
                return await self._google(given)
            case AzureClient():
                return await self._azure(given)

    async def _ldap(self, given: LdapIdentity) -> _Kept:
        form = {
            "Action": "AssumeRoleWithLDAPIdentity",
            "Version": "2011-06-15",
            "LDAPUsername": given.username,
            "LDAPPassword": given.password,
        }
        place = self._place
        wire = Wire(
            ca=given.ca,
            client_cert=given.client_cert,
            client_key=given.client_key,
            proxy=place.proxy,
            patience=self._patience,
        )
        async with wire:
            body = await self._post(wire, given.endpoint, form)
        try:
            return _keys(body)
        except (xml.XmlError, ValueError) as exc:
            raise CredentialsError("the token service at spec.sts.endpoint gave no keys") from exc

    async def _google(self, given: GcsServiceAccount) -> _Kept:
        account = _service_account(given.key)
        now = int(self._clock())
        claims = {
            "iss": account.client_email,
            "scope": _GCS_SCOPE,
            "aud": account.token_uri,
            "iat": now,
            "exp": now + 3600,
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": account.private_key_id}
        assertion = _jwt(header, claims, account.private_key.encode(), None)
        form = {"grant_type": _GRANT, "assertion": assertion}
        return self._token(await self._post(self._wire, account.token_uri, form))

    async def _azure(self, given: AzureClient) -> _Kept:
        url = f"{given.authority_host.rstrip('/')}/{encode(given.tenant_id)}/oauth2/v2.0/token"
        form = {
            "grant_type": "client_credentials",
            "client_id": given.client_id,
            "scope": _AZURE_SCOPE,
        }
        if given.secret:
            form["client_secret"] = given.secret
        else:
            form["client_assertion_type"] = _ASSERTION
            form["client_assertion"] = _client_assertion(given, url, int(self._clock()))
        return self._token(await self._post(self._wire, url, form))

    async def _post(self, wire: Wire, url: str, form: dict[str, str]) -> bytes:
        try:
            parts = split(url, default="https")
        except PlaceError as exc:
            raise CredentialsError("the address of the token service is not a URL") from exc
        if parts.scheme != "https" and not self._place.plain_http:
            raise CredentialsError("credentials are exchanged over https:// only")
        subject = Subject(action="exchange credentials", host=parts.netloc)
        request = Request(
            method="POST",
            url=url,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        try:
            return (await wire.text(request, subject))[0]
        except ObjectStoreError as exc:
            if 400 <= exc.status < 500 and exc.status != 429:
                raise CredentialsError(str(exc), status=exc.status) from exc
            raise

    def _token(self, body: bytes) -> _Kept:
        try:
            answer = untrusted.load_json(body, _Answer, size=_MAX_JSON)
        except untrusted.UntrustedError as exc:
            raise CredentialsError("the token service's answer has no token") from exc
        return _Kept(
            credentials=BearerToken(token=answer.access_token),
            until=self._clock() + float(answer.expires_in),
        )


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: int = 3600


class _ServiceAccount(msgspec.Struct):
    type: str
    client_email: str
    private_key: str
    private_key_id: str = ""
    token_uri: str = "https://oauth2.googleapis.com/token"  # noqa: S105  # an address


def check(credentials: Credentials) -> None:
    """Refuse invalid credentials before any request.

    Raises:
        CredentialsError: the credentials are invalid.
    """
    if isinstance(credentials, GcsServiceAccount):
        _private_key(_service_account(credentials.key).private_key.encode(), None)
    elif isinstance(credentials, AzureClient) and credentials.certificate:
        _private_key(credentials.certificate, credentials.certificate_password)
        _certificates(credentials.certificate)


def _service_account(key: bytes) -> _ServiceAccount:
    try:
        account = untrusted.load_json(key, _ServiceAccount, size=_MAX_JSON)
    except untrusted.UntrustedError as exc:
        raise CredentialsError(
            "'serviceaccount' in the secret is not the JSON key of a service account"
        ) from exc
    if account.type != "service_account":
        # Other kinds name files and programs of the machine that they are used on.
        raise CredentialsError("'serviceaccount' in the secret is not of type 'service_account'")
    return account


def _keys(body: bytes) -> _Kept:
    """Read keys from the answer of ``AssumeRoleWith…``."""
    found = xml.parse(body).find("*/Credentials")
    if found is None:
        raise ValueError("no credentials")
    keys = S3Keys(
        access_key=xml.text(found, "AccessKeyId"),
        secret_key=xml.text(found, "SecretAccessKey"),
        session_token=xml.text(found, "SessionToken"),
    )
    if not keys.access_key or not keys.secret_key:
        raise ValueError("empty credentials")
    until = datetime.fromisoformat(xml.text(found, "Expiration")).timestamp()
    return _Kept(credentials=keys, until=until)


def _client_assertion(given: AzureClient, url: str, now: int) -> str:
    """Return an assertion signed with the application's certificate (Entra ID)."""
    pem = given.certificate or b""
    chain = _certificates(pem)
    header: dict[str, Any] = {
        "alg": "PS256",
        "typ": "JWT",
        "x5t": _base64url(chain[0].fingerprint(SHA1())),  # noqa: S303  # names the certificate
        "x5t#S256": _base64url(chain[0].fingerprint(SHA256())),
    }
    if given.send_chain:
        header["x5c"] = [b64encode(one.public_bytes(Encoding.DER)).decode() for one in chain]
    claims = {
        "aud": url,
        "iss": given.client_id,
        "sub": given.client_id,
        "jti": secrets.token_urlsafe(16),
        "nbf": now,
        "exp": now + 600,
    }
    return _jwt(header, claims, pem, given.certificate_password)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as exc:
        raise CredentialsError("'clientCertificate' in the secret holds no certificate") from exc


def _jwt(header: dict[str, Any], claims: dict[str, Any], pem: bytes, password: bytes | None) -> str:
    key = _private_key(pem, password)
    text = ".".join(_base64url(json.dumps(part).encode()) for part in (header, claims))
    how: padding.AsymmetricPadding = padding.PKCS1v15()
    if header["alg"] == "PS256":
        how = padding.PSS(padding.MGF1(SHA256()), hashlib.sha256().digest_size)
    return f"{text}.{_base64url(key.sign(text.encode(), how, SHA256()))}"


def _private_key(pem: bytes, password: bytes | None) -> rsa.RSAPrivateKey:
    block = _key_block(pem)
    if not encryptedkey.is_bearable(block):
        raise CredentialsError(
            "the private key in the secret is encrypted in a way that takes too long: use PBKDF2"
            " with at most 1,000,000 iterations"
        )
    try:
        return rsakeys.load(block, password or None)
    except rsakeys.RSAKeyError as exc:
        also = ", or its password is not right" if password else ""
        raise CredentialsError(f"the private key in the secret {exc}{also}") from exc


def _key_block(pem: bytes) -> bytes:
    """Return the private key of a PEM file that holds certificates too, in whichever order."""
    marker = pem.find(b"PRIVATE KEY-----")
    start = pem.rfind(b"-----BEGIN ", 0, max(marker, 0))
    end = pem.find(b"-----END ", max(marker, 0))
    stop = pem.find(b"-----", end + 9)
    return pem[start : stop + 5] if -1 not in (marker, start, end, stop) else pem


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
