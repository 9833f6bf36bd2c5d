"""GitHub as it gives tokens to Apps: it checks the App's signature and claims."""

import base64
import json
from datetime import UTC, datetime, timedelta

from aiohttp import web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


SECRET = {
    "githubAppID": b"77",
    "githubAppInstallationID": b"5",
    "githubAppPrivateKey": pem(KEY),
}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class FakeGitHub:
    """Knows App 77 with installation 5 at the organisation pipes and 6 at the user ada."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.requests: list[str] = []
        self.base = ""

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/{kind}/{owner}/installation", self._installation)
        application.router.add_post("/app/installations/{id}/access_tokens", self._token)
        return application

    async def _installation(self, request: web.Request) -> web.Response:
        self._authenticate(request)
        known = {("orgs", "pipes"): 5, ("users", "ada"): 6}
        found = known.get((request.match_info["kind"], request.match_info["owner"]))
        if found is None:
            return web.json_response({"message": "Not Found"}, status=404)
        return web.json_response({"id": found})

    async def _token(self, request: web.Request) -> web.Response:
        self._authenticate(request)
        installation = request.match_info["id"]
        if installation not in {"5", "6"}:
            return web.json_response({"message": "Not Found"}, status=404)
        end = (self.clock() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        token = f"ghs_{installation}_{len(self.requests)}"
        return web.json_response({"token": token, "expires_at": end}, status=201)

    def _authenticate(self, request: web.Request) -> None:
        self.requests.append(request.path)
        signed, _, signature = request.headers["Authorization"][len("Bearer ") :].rpartition(".")
        claims = json.loads(decoded(signed.split(".")[1]))
        try:
            KEY.public_key().verify(
                decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except InvalidSignature:
            raise web.HTTPUnauthorized(text='{"message": "bad signature"}') from None
        now = self.clock().timestamp()
        if claims["iss"] != "77" or not claims["iat"] <= now < claims["exp"] <= now + 600:
            raise web.HTTPUnauthorized(text='{"message": "bad claims"}')


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
