"""The reference registry (the Go program ``registry``) on loopback, with or without a login."""

import asyncio
import base64
import json
import os
import re
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.fakes.serving import serving

LOGIN = ("ada", "hunter2")
_HASHED = "ada:$2b$04$Y7AAS7JCDYv9Io22hS0CrePucEi37YZ18hCRN6Z1AURel5obthf1K\n"
_LISTENING = re.compile(rb"listening on 127\.0\.0\.1:(\d+)")


@asynccontextmanager
async def serve(
    program: Path, root: Path, *, login: bool = False, tokens: "TokenService | None" = None
) -> AsyncIterator[str]:
    """Run a registry that keeps its data below ``root``; give its host and port.

    With ``login`` it demands ``LOGIN`` by Basic authentication, with ``tokens`` those.
    """
    await asyncio.to_thread(_configure, root, login=login, tokens=tokens)
    process = await asyncio.create_subprocess_exec(
        program,
        "serve",
        root / "config.yml",
        stderr=PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
    )
    assert process.stderr is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(30):
            while not (found := _LISTENING.search(await process.stderr.readline())):
                assert process.returncode is None, "the registry ended"
        drain = asyncio.ensure_future(process.stderr.read())
        yield f"localhost:{int(found[1])}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if drain is not None:
            await drain


class TokenService:
    """Gives tokens to anyone who knows ``LOGIN``: JWTs, as the reference registry wants them."""

    def __init__(self) -> None:
        self.realm = ""
        self.asked: list[tuple[str, str]] = []
        """Scope and Authorization header of each request."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = _self_signed(self._key)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/token", self._answer)
        port = await self._open.enter_async_context(serving(application))
        self.realm = f"http://localhost:{port}/token"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _answer(self, request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        self.asked.append((request.query.get("scope", ""), authorization))
        if authorization != "Basic " + base64.b64encode(":".join(LOGIN).encode()).decode():
            return web.Response(status=401)
        access = []
        for scope in request.query.getall("scope", []):
            kind, name, _ = scope.split(":")
            # The client that pushes asks once, for pulling, and then pushes with that token.
            access.append({"type": kind, "name": name, "actions": ["pull", "push"]})
        return web.json_response({"token": self._token(access), "expires_in": 300})

    def _token(self, access: list[dict[str, object]]) -> str:
        now = int(time.time())
        der = self.certificate.public_bytes(serialization.Encoding.DER)
        header = {"alg": "ES256", "typ": "JWT", "x5c": [base64.b64encode(der).decode()]}
        claims = {"iss": "tests", "sub": LOGIN[0], "aud": "registry", "jti": str(now)}
        times = {"iat": now, "nbf": now - 60, "exp": now + 300}
        parts = (header, {**claims, **times, "access": access})
        text = b".".join(_base64url(json.dumps(part).encode()) for part in parts)
        r, s = decode_dss_signature(self._key.sign(text, ec.ECDSA(hashes.SHA256())))
        return (text + b"." + _base64url(r.to_bytes(32) + s.to_bytes(32))).decode()


def _base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )


def _configure(root: Path, *, login: bool, tokens: TokenService | None) -> None:
    root.mkdir(parents=True, exist_ok=True)
    config = f"""
version: 0.1
log: {{level: info}}
storage: {{filesystem: {{rootdirectory: {root}/data}}}}
http: {{addr: "127.0.0.1:0"}}
"""
    if login:
        (root / "htpasswd").write_text(_HASHED)
        config += f"auth: {{htpasswd: {{realm: registry, path: {root}/htpasswd}}}}\n"
    if tokens is not None:
        bundle = root / "tokens.pem"
        bundle.write_bytes(tokens.certificate.public_bytes(serialization.Encoding.PEM))
        config += (
            f"auth: {{token: {{realm: '{tokens.realm}', service: registry, issuer: tests, "
            f"rootcertbundle: {bundle}}}}}\n"
        )
    (root / "config.yml").write_text(config)
