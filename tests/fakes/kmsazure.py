"""Azure Key Vault as it checks requests, and Entra ID where an application shows a secret."""

import base64
import json
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from aiohttp import web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.fakes.cloudazure import Azure

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
        if "client_secret" not in form:
            return await self.azure.answer(request, body)
        assert request.path == f"/{TENANT}/oauth2/v2.0/token"
        assert form["grant_type"] == "client_credentials"
        if (form["client_id"], form["client_secret"]) != (CLIENT, self.secret):
            return web.json_response({"error": "invalid_client"}, status=401)
        # SDKs ask for openid and the like beside it.
        scope = next(each for each in form["scope"].split() if "://" in each)
        return web.json_response(self.azure.mint(CLIENT, scope))

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
