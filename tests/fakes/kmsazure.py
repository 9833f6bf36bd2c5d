"""Azure Key Vault as it checks requests, and Entra ID where an application shows a secret."""

import base64
import json
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from tests.fakes.cloudazure import Azure
from tests.fakes.issuer import RefusedError

VAULT = "https://fleet.vault.azure.net"
VERSION = "0123456789abcdef0123456789abcdef"
TENANT = "11111111-2222-3333-4444-555555555555"
CLIENT = "66666666-7777-8888-9999-000000000000"

_OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)
_CHALLENGE = (
    'Bearer authorization="https://login.microsoftonline.com/'
    f'{TENANT}", resource="https://vault.azure.net"'
)


_PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class AzureVault:
    """A vault with one key, ``sops``; ``allowed`` are the applications that may decrypt."""

    azure: Azure
    key: rsa.RSAPrivateKey = _PRIVATE
    allowed: set[str] = field(default_factory=lambda: {CLIENT})
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    lies: str = ""
    trusted: x509.Certificate | None = None
    chains: list[bool] = field(default_factory=list)

    def application(self) -> dict[str, str]:
        """Return the credentials of the application, as Flux's Secret has them."""
        return {"tenantId": TENANT, "clientId": CLIENT, "clientSecret": self.secret}

    def encrypt(self, plain: bytes) -> str:
        """Return what SOPS keeps: base64url without padding."""
        return _encoded(self.key.public_key().encrypt(plain, _OAEP))

    async def enter(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer as Entra ID."""
        if request.method == "GET":
            return _directory()
        form = dict(parse_qsl(body.decode()))
        if form["client_id"] != CLIENT:
            return await self.azure.answer(request, body)
        assert request.path == f"/{TENANT}/oauth2/v2.0/token"
        assert form["grant_type"] == "client_credentials"
        if "client_assertion" in form:
            assert form["client_assertion_type"].endswith(":jwt-bearer")
            self._check(form["client_assertion"], f"https://{request.host}{request.path}")
        elif form["client_secret"] != self.secret:
            return web.json_response({"error": "invalid_client"}, status=401)
        # SDKs ask for openid and the like beside it.
        scope = next(each for each in form["scope"].split() if "://" in each)
        return web.json_response(self.azure.mint(CLIENT, scope))

    def certificate(self) -> str:
        """Return a certificate of the application with its key, PEM; from now on it may sign."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sops")])
        now = datetime.now(UTC)
        self.trusted = (
            x509.CertificateBuilder(name, name, self.key.public_key(), serial_number=1)
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .sign(self.key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        key = self.key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return (self.trusted.public_bytes(pem) + key).decode()

    def _check(self, token: str, audience: str) -> None:
        """Check what a certificate's key signed, as Entra ID does."""
        head, claims = (json.loads(_decoded(part)) for part in token.split(".")[:2])
        if self.trusted is None:
            raise RefusedError("invalid_client")
        print_ = self.trusted.fingerprint(hashes.SHA256())
        # Microsoft's own library for Go writes it in the other alphabet.
        given = head["x5t#S256"].replace("+", "-").replace("/", "_").rstrip("=")
        assert (head["alg"], given) == ("PS256", _encoded(print_))
        signed, _, signature = token.rpartition(".")
        scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.AUTO)
        try:
            self.trusted.public_key().verify(
                _decoded(signature), signed.encode(), scheme, hashes.SHA256()
            )
        except InvalidSignature:
            raise RefusedError("invalid_client") from None
        assert (claims["aud"], claims["iss"], claims["sub"]) == (audience, CLIENT, CLIENT)
        assert claims["nbf"] - 60 <= time.time() < claims["exp"] <= claims["nbf"] + 3600
        assert claims["jti"]
        self.chains.append("x5c" in head)

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer as the vault."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        client, scope = self.azure.tokens.get(token, ("", ""))
        if scope != "https://vault.azure.net/.default":
            return _failed(401, "Unauthorized", {"WWW-Authenticate": _CHALLENGE})
        if client not in self.allowed:
            return _failed(403, "Forbidden")
        assert request.query["api-version"]
        kid = f"https://{request.host}/keys/sops/{VERSION}"
        if request.path.rpartition("/")[0] not in {f"/keys/sops/{VERSION}", "/keys/sops"}:
            return _failed(404, "KeyNotFound")
        asked = json.loads(body)
        assert asked["alg"] == "RSA-OAEP-256"
        if request.path.endswith("/encrypt"):
            sealed = self.encrypt(_decoded(asked["value"]))
            return web.json_response({"kid": kid, "value": sealed})
        try:
            plain = self.key.decrypt(_decoded(asked["value"]), _OAEP)
        except ValueError:
            return _failed(400, "BadParameter")
        return web.json_response({"kid": self.lies or kid, "value": _encoded(plain)})


def _directory() -> web.Response:
    """Describe the tenant, which SDKs ask about first."""
    base = f"https://login.microsoftonline.com/{TENANT}"
    known = {"preferred_network": "login.microsoftonline.com", "aliases": []}
    return web.json_response(
        {
            "tenant_discovery_endpoint": f"{base}/v2.0/.well-known/openid-configuration",
            "metadata": [known | {"preferred_cache": "login.microsoftonline.com"}],
            "issuer": f"{base}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/oauth2/v2.0/token",
        }
    )


def _failed(status: int, code: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"code": code, "message": "sentence"}}
    return web.json_response(body, status=status, headers=headers)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
