"""Access tokens for key files of Google's service accounts (RFC 7523), cached for their lifetime.

Requests go to Google's token service, whatever the ``token_uri`` of a key file is: the author of a
Secret must not choose the addresses that this process connects to.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

import jwt
import msgspec

from toolkit import untrusted
from toolkit.remote import rsakeys
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.identity import Bearer
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.http import http as transport
from toolkit.remote.http.http import Http

TOKENS: Final = "https://oauth2.googleapis.com/token"
_SCOPE: Final = "https://www.googleapis.com/auth/pubsub"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_FORM: Final = "application/x-www-form-urlencoded"
_SECONDS: Final = 600
_LONGEST: Final = 64 << 10
_LONGEST_LIFE: Final = 3600


class _Key(msgspec.Struct):
    """A key file."""

    client_email: str
    private_key: str


class _Token(msgspec.Struct):
    """An answer of the token service."""

    access_token: str
    expires_in: int = 300


class KeyFiles:
    """Asks for tokens, and keeps them by the key file and the way that they came."""

    def __init__(self, http: Http, cache: TokenCache) -> None:
        self._http = http
        self._cache = cache

    def reading(
        self, text: str, endpoint: Endpoint, *, timeout: float
    ) -> Callable[[], Awaitable[Bearer]]:
        """Return the function that requests a token; ``timeout`` is in seconds.

        Raises:
            AuthError: the text is not a key file.
        """
        try:
            key = untrusted.load_json(text, _Key, size=_LONGEST)
        except untrusted.UntrustedError as exc:
            raise AuthError("'token' in the secret is not a key file of a service account") from exc
        digest = hashlib.sha256(text.encode()).hexdigest()

        async def fetch() -> Bearer:
            return await self._fetch(key, endpoint, timeout)

        async def token() -> Bearer:
            return await self._cache.get("keyfile", (digest, endpoint), fetch)

        return token

    async def _fetch(self, key: _Key, endpoint: Endpoint, seconds: float) -> Bearer:
        now = int(time.time())
        claims = {
            "iss": key.client_email,
            "scope": _SCOPE,
            "aud": TOKENS,
            "iat": now,
            "exp": now + _SECONDS,
        }
        try:
            private = rsakeys.load(key.private_key.encode())
        except rsakeys.RSAKeyError as exc:
            raise AuthError(f"'private_key' of the key file in the secret {exc}") from exc
        assertion = jwt.encode(claims, private, algorithm="RS256")
        async with self._http.request(
            "POST",
            TOKENS,
            endpoint=endpoint,
            headers={"Content-Type": _FORM},
            body=urlencode({"grant_type": _GRANT, "assertion": assertion}).encode(),
            timeout=seconds,
        ) as response:
            body = await transport.read(response, limit=_LONGEST)
        try:
            found = untrusted.load_json(body, _Token, size=_LONGEST)
        except untrusted.UntrustedError as exc:
            raise HttpError("Google's token service answered without a token") from exc
        life = timedelta(seconds=max(0, min(found.expires_in, _LONGEST_LIFE)))
        return Bearer(token=found.access_token, expires_at=self._cache.now() + life)
