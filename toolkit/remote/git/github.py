"""Credentials of a GitHub App: a short-lived token for one of its installations.

The App's key signs a JWT, which GitHub exchanges for an installation token (docs.github.com,
"Authenticating as a GitHub App installation"). Tokens last an hour and are kept until shortly
before their end, so that an interval reconcile costs no request.
"""

import asyncio
import base64
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from toolkit import untrusted
from toolkit.remote import rsakeys
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import HttpError
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.errors import GitAuthError, GitError
from toolkit.remote.http import http as transport
from toolkit.remote.http.http import Http

DEFAULT_API: Final = "https://api.github.com"
USER: Final = "x-access-token"
"""The user name for an installation token."""

_JWT_LIFE: Final = timedelta(minutes=9)
_CLOCK_SKEW: Final = timedelta(minutes=1)
_SPARE: Final = timedelta(minutes=5)
_NEW: Final = timedelta(minutes=1)
_MAX_TOKENS: Final = 1000
_MAX_ANSWER: Final = 1 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubApp:
    """An App and its installation: by id, or else by the login of its owner."""

    app_id: str
    private_key: bytes = field(repr=False)
    installation_id: str = ""
    installation_owner: str = ""
    api: str = DEFAULT_API
    ca: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "GitHubApp":
        """Read the ``githubApp…`` keys (Flux: ``spec.provider: github``).

        Raises:
            GitAuthError: one is missing or malformed.

        """
        app_id = _field(data, "githubAppID")
        installation_id = _field(data, "githubAppInstallationID")
        owner = _field(data, "githubAppInstallationOwner")
        key = data.get("githubAppPrivateKey")
        if not app_id or not key or not (installation_id or owner):
            raise GitAuthError(
                "provider github needs 'githubAppID', 'githubAppPrivateKey' and one of "
                "'githubAppInstallationID' and 'githubAppInstallationOwner' in the secret"
            )
        return cls(
            app_id=app_id,
            private_key=key,
            installation_id=installation_id,
            installation_owner=owner,
            api=_api(data.get("githubAppBaseURL")),
            ca=data.get("ca.crt") or None,
        )

    @property
    def identity(self) -> tuple[str, ...]:
        """Return the cache key of a token."""
        key = hashlib.sha256(self.private_key).hexdigest()
        return self.api, self.app_id, self.installation_id, self.installation_owner, key


class GitHubTokens:
    """Gets and keeps installation tokens, each by the App, the API and the way there.

    ``now`` is the clock.
    """

    def __init__(self, http: Http, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._http = http
        self._now = now
        self._slots: OrderedDict[tuple[tuple[str, ...], Endpoint], _Slot] = OrderedDict()

    async def auth(
        self,
        app: GitHubApp,
        *,
        way: Endpoint,
        timeout: float,  # noqa: ASYNC109  # applied where the requests are made
    ) -> GitAuth:
        """Return credentials for the repositories of the installation.

        ``way`` has the proxy for the API, and whether it may be without TLS or at a private
        address: the owner of the App names it. ``timeout`` is in seconds.

        Raises:
            GitAuthError: GitHub does not accept the App, or does not know the installation.
            GitError: GitHub cannot be reached.
        """
        way = replace(way.anonymous(), ca=app.ca or way.ca)
        key = (app.identity, way)
        slot = self._slots.setdefault(key, _Slot())
        self._slots.move_to_end(key)
        while len(self._slots) > _MAX_TOKENS:
            self._slots.popitem(last=False)
        # One at a time: a hundred repositories of one App need only one token.
        async with slot.lock:
            if slot.end is None or slot.end - _SPARE <= self._now():
                slot.token, slot.end = await self._fetch(app, way, timeout)
                slot.begin = self._now()
            return GitAuth(username=USER, password=slot.token, ca=app.ca, proxy=way.proxy)

    def drop(self, auth: GitAuth) -> bool:
        """Drop a refused token; return whether a new one may help.

        GitHub revokes tokens early, for example when the permissions of the installation change. A
        new token is kept: if it is refused there is another reason, and other callers must not
        request it again.
        """
        before = self._now() - _NEW
        kept = [slot for slot in self._slots.values() if slot.end and slot.token == auth.password]
        old = [slot for slot in kept if slot.begin <= before]
        for slot in old:
            slot.end = None
        return bool(old)

    async def _fetch(self, app: GitHubApp, way: Endpoint, seconds: float) -> tuple[str, datetime]:
        # The App's JWT is a bearer token; no redirect takes it along.
        endpoint = replace(way, bearer_token=_jwt(app, self._now()))
        api = _Api(self._http, app.api, endpoint, seconds)
        installation = app.installation_id or await api.installation(app.installation_owner)
        answer = await api.ask("POST", f"/app/installations/{installation}/access_tokens")
        try:
            end = datetime.fromisoformat(answer["expires_at"])
            return str(answer["token"]), end if end.tzinfo else end.replace(tzinfo=UTC)
        except (KeyError, TypeError, ValueError) as exc:
            raise GitError("GitHub answered without an installation token") from exc


@dataclass(slots=True)
class _Slot:
    """A cached token, and the lock for its callers."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: str = field(default="", repr=False)
    begin: datetime = datetime.min.replace(tzinfo=UTC)  # noqa: RUF009  # immutable
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Api:
    """The two requests that are made."""

    http: Http
    base: str
    endpoint: Endpoint
    seconds: float

    async def installation(self, owner: str) -> str:
        """Return the id of the App's installation at an organisation or a user."""
        for kind in ("orgs", "users"):
            answer = await self.ask("GET", f"/{kind}/{owner}/installation", missing_ok=True)
            found = _field({"id": str(answer.get("id", "")).encode()}, "id")
            if found:
                return found
        raise GitAuthError(f"the GitHub App is not installed at '{owner}'")

    async def ask(self, method: str, path: str, *, missing_ok: bool = False) -> dict[str, Any]:
        """Send a request and return the JSON object of the answer."""
        try:
            async with self.http.request(
                method,
                self.base + path,
                endpoint=self.endpoint,
                headers=_HEADERS,
                timeout=self.seconds,
            ) as response:
                body = await transport.read(response, limit=_MAX_ANSWER)
        except HttpError as exc:
            if exc.status == 404 and missing_ok:
                return {}
            raise self._refusal(exc) from exc
        return _json_object(body)

    def _refusal(self, exc: HttpError) -> GitError:
        """Return the error for a request that failed."""
        if not exc.status:
            return GitError(f"cannot reach the GitHub API at '{self.base}': {exc}")
        error = GitAuthError if exc.status in {401, 403, 404, 422} else GitError
        said = f"HTTP {exc.status} {exc.code}".rstrip()
        return error(f"the GitHub API at '{self.base}' refused the App: {said}")


_HEADERS: Final = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
}


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        return untrusted.load_json(body, dict[str, Any], size=_MAX_ANSWER)
    except untrusted.UntrustedError:
        return {}


def _jwt(app: GitHubApp, now: datetime) -> str:
    """Sign the App's claim to be itself (RFC 7519, RS256)."""
    try:
        key = rsakeys.load(app.private_key)
    except rsakeys.RSAKeyError as exc:
        raise GitAuthError(f"'githubAppPrivateKey' in the secret {exc}") from exc
    claims = {
        "iat": int((now - _CLOCK_SKEW).timestamp()),
        "exp": int((now + _JWT_LIFE).timestamp()),
        "iss": app.app_id,
    }
    signed = b".".join(
        _base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims)
    )
    signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    return (signed + b"." + _base64url(signature)).decode()


def _base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _field(data: Mapping[str, bytes], key: str) -> str:
    text = data.get(key, b"").decode("utf-8", "replace").strip()
    # These go into a path.
    if text and not _NAME.fullmatch(text):
        raise GitAuthError(f"'{key}' in the secret is not a valid id or name")
    return text


def _api(given: bytes | None) -> str:
    text = (given or b"").decode("utf-8", "replace").strip().rstrip("/")
    if text and not re.fullmatch(r"https?://[^\s@?#]+", text):
        raise GitAuthError("'githubAppBaseURL' in the secret is not a URL")
    return text or DEFAULT_API
