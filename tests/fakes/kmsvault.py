"""The transit engine of a Vault, as far as SOPS uses it: encrypt and decrypt with a token."""

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trustme
from aiohttp import web
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.fakes.serving import certified, serving

TOKEN = "hvs.CAESIJ-a-token-of-a-test"


@dataclass
class FakeVault:
    """One engine, ``transit``, with one key, ``sops``.

    ``allowed`` are the tokens that may use it, ``requests`` the paths and tokens that came.
    ``status`` and ``location`` are answered instead, if set; ``plaintext`` takes the place of what
    was decrypted.
    """

    allowed: set[str] = field(default_factory=lambda: {TOKEN})
    requests: list[tuple[str, str]] = field(default_factory=list)
    key: bytes = field(default_factory=lambda: os.urandom(32))
    address: str = ""
    ca: bytes = b""
    status: int = 0
    location: str = ""
    plaintext: str = ""

    def encrypt(self, plain: bytes) -> str:
        """Return a ciphertext as SOPS keeps it."""
        nonce = os.urandom(12)
        sealed = nonce + AESGCM(self.key).encrypt(nonce, plain, None)
        return f"vault:v1:{base64.b64encode(sealed).decode()}"

    def recipient(self, plain: bytes, **changes: str) -> dict[str, str]:
        """Return an entry of ``hc_vault``."""
        entry = {"vault_address": self.address, "engine_path": "transit", "key_name": "sops"}
        return {**entry, "enc": self.encrypt(plain), **changes}

    @asynccontextmanager
    async def running(self, *, tls: bool = False) -> AsyncIterator["FakeVault"]:
        """Serve until the block ends."""
        context = None
        if tls:
            authority = trustme.CA()
            context = certified(authority, "127.0.0.1")
            self.ca = authority.cert_pem.bytes()
        async with serving(self._answer, tls=context) as port:
            self.address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            yield self

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        token = request.headers.get("X-Vault-Token", "")
        self.requests.append((request.path, token))
        if self.status:
            headers = {"Location": self.location} if self.location else None
            return web.json_response({"errors": ["sentence"]}, status=self.status, headers=headers)
        if token not in self.allowed:
            return web.json_response({"errors": ["permission denied"]}, status=403)
        given = json.loads(body)
        match request.path:
            case "/v1/transit/encrypt/sops":
                data = {"ciphertext": self.encrypt(base64.b64decode(given["plaintext"]))}
            case "/v1/transit/decrypt/sops":
                sealed = base64.b64decode(given["ciphertext"].removeprefix("vault:v1:"))
                try:
                    plain = AESGCM(self.key).decrypt(sealed[:12], sealed[12:], None)
                except (InvalidTag, ValueError):
                    return web.json_response({"errors": ["invalid ciphertext"]}, status=400)
                data = {"plaintext": self.plaintext or base64.b64encode(plain).decode()}
            case _:
                return web.json_response({"errors": []}, status=404)
        return web.json_response({"data": data, "lease_id": ""})
