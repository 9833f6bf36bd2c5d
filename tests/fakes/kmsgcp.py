"""Google Cloud KMS as it checks requests, and the token service for accounts with a key."""

import base64
import json
import os
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from aiohttp import web
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.fakes.cloudgcp import Gcp
from tests.fakes.issuer import Json

KEY = "projects/fleet/locations/europe-west1/keyRings/sops/cryptoKeys/apps"
EMAIL = "sops@fleet.iam.gserviceaccount.com"


_PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class GcpKms:
    """One crypto key; ``allowed`` are the accounts that may decrypt."""

    gcp: Gcp
    key: bytes = field(default_factory=lambda: os.urandom(32))
    private: rsa.RSAPrivateKey = _PRIVATE
    allowed: set[str] = field(default_factory=lambda: {EMAIL})

    def account(self, **changes: str) -> Json:
        """Return the account's key file, as Flux's Secret has it."""
        pem = self.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return {
            "type": "service_account",
            "client_email": EMAIL,
            "private_key": pem.decode(),
            "private_key_id": "k1",
            "token_uri": "https://attacker.example/token",
            **changes,
        }

    def encrypt(self, plain: bytes) -> str:
        """Return what SOPS keeps: base64."""
        nonce = os.urandom(12)
        return base64.b64encode(nonce + AESGCM(self.key).encrypt(nonce, plain, None)).decode()

    async def tokens(self, _: web.BaseRequest, body: bytes) -> web.Response:
        """Answer as ``oauth2.googleapis.com``."""
        form = dict(parse_qsl(body.decode()))
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        try:
            claims = self._claims(form["assertion"])
        except InvalidSignature:
            return web.json_response({"error": "invalid_grant"}, status=400)
        assert claims["aud"] == "https://oauth2.googleapis.com/token"
        token = self.gcp.mint(claims["iss"])
        return web.json_response({"access_token": token, "expires_in": 3599})

    def _claims(self, token: str) -> Json:
        signed, _, signature = token.rpartition(".")
        self.private.public_key().verify(
            _decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
        )
        claims: Json = json.loads(_decoded(signed.partition(".")[2]))
        assert claims["iat"] - 60 <= time.time() < claims["exp"] <= claims["iat"] + 3610
        return claims

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer as ``cloudkms.googleapis.com``."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        who = self.gcp.tokens.get(token)
        if token.count(".") == 2:  # the account's own signature instead (AIP-4111)
            who = self._claims(token)["sub"]
        if who is None:
            return _failed(401, "UNAUTHENTICATED")
        if who not in self.allowed:
            return _failed(403, "PERMISSION_DENIED")
        if request.path == f"/v1/{KEY}:encrypt":
            sealed = self.encrypt(base64.b64decode(json.loads(body)["plaintext"]))
            return web.json_response({"name": f"{KEY}/cryptoKeyVersions/1", "ciphertext": sealed})
        if request.path != f"/v1/{KEY}:decrypt":
            return _failed(404, "NOT_FOUND")
        sealed = base64.b64decode(json.loads(body)["ciphertext"])
        try:
            plain = AESGCM(self.key).decrypt(sealed[:12], sealed[12:], None)
        except InvalidTag:
            return _failed(400, "INVALID_ARGUMENT")
        return web.json_response({"plaintext": base64.b64encode(plain).decode()})


def _failed(status: int, name: str) -> web.Response:
    body: Json = {"error": {"code": status, "message": "sentence", "status": name}}
    return web.json_response(body, status=status)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
