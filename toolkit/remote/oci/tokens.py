"""Sign in at a registry: its challenge is learnt once, and its tokens are kept until they expire.

A registry answers 401 with a challenge: Basic, or a token from a service that it names (the realm).
The service gets our credentials, so a registry may not name any service:

1. It uses https, unless the registry itself is plain HTTP. Then it must be on the same host,
   because an attacker in the network could have written the challenge.
2. It is not at a private address if the registry is not (``http`` checks where it resolves).
3. It is asked for this repository and for our action, pulling unless ``actions`` say more,
   whatever scope the registry suggests.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from urllib.parse import urlencode, urlsplit

import msgspec

from toolkit import untrusted
from toolkit.remote.http import http
from toolkit.remote.http.http import AuthError, Endpoint, Http, HttpError
from toolkit.remote.oci.oci import Repository


@dataclass(frozen=True, slots=True)
class Challenge:
    """The challenge of a registry: ``Basic`` has no realm here, ``Bearer`` has one."""

    realm: str = ""
    service: str = ""
    scope: str = ""


class Tokens:
    """A cache of challenges and tokens by registry and credentials; the least used are dropped.

    ``clock`` is in seconds, monotonic.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        *,
        actions: Literal["pull", "pull,push"] = "pull",
    ) -> None:
        self._clock = clock
        self._actions = actions
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()

    async def endpoint(
        self,
        client: Http,
        base: str,
        repository: Repository,
        endpoint: Endpoint,
        *,
        seconds: float,
    ) -> Endpoint:
        """Return the credentials for a request in ``repository``; the first request has none.

        Raises:
            HttpError: a token has expired and no new one is issued; AuthError: access is refused.
        """
        if endpoint.bearer_token is not None:
            return endpoint
        entry = self._entry(base, repository, endpoint)
        async with entry.lock:
            challenge = entry.challenge
            if challenge is None:
                return endpoint.without_login()
            if not challenge.realm:
                return endpoint
            if self._now() >= entry.end:
                before = self._now()
                answer = await _ask(client, base, endpoint, challenge, seconds)
                entry.keep(answer, before)
            return replace(endpoint.without_login(), bearer_token=entry.token)

    async def challenged(
        self,
        base: str,
        repository: Repository,
        endpoint: Endpoint,
        *,
        used: Endpoint,
        challenges: tuple[str, ...],
    ) -> bool:
        """Handle a 401 to a request with ``used``; return whether to repeat the request.

        Raises:
            AuthError: the token service that the registry names is not allowed.
        """
        if endpoint.bearer_token is not None:
            return False
        entry = self._entry(base, repository, endpoint)
        async with entry.lock:
            if entry.token and used.bearer_token not in (None, entry.token):
                return True  # Another caller has already obtained a new token.
            challenge = _choose(challenges, base, repository, endpoint, self._actions)
            if challenge is None or (not challenge.realm and used.authorization):
                return False
            if used.bearer_token is not None and entry.fresh:
                return False  # It was just given to us: another one is no better.
            entry.challenge, entry.token, entry.end = challenge, "", 0.0
            return True

    def accepted(self, base: str, repository: Repository, endpoint: Endpoint) -> None:
        """Take note that the present token works: when it is refused later, it has ended."""
        if entry := self._entries.get((base, repository.name, endpoint)):
            entry.fresh = False

    def _entry(self, base: str, repository: Repository, endpoint: Endpoint) -> "_Entry":
        key = (base, repository.name, endpoint)
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        while len(self._entries) > _KEPT:
            self._entries.popitem(last=False)
        return entry

    def _now(self) -> float:
        return self._clock() if self._clock else asyncio.get_running_loop().time()


_Key = tuple[str, str, Endpoint]
_KEPT: Final = 4096
_LIFE: Final = 60.0
"""Life of a token in seconds if its service does not state it (distribution-spec, token)."""
_LONGEST_LIFE: Final = 3600.0
_SPARE: Final = 15.0
_MAX_ANSWER: Final = 256 << 10
_CHALLENGE: Final = re.compile(r"\s*(basic|bearer)(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)
_PARAMETER: Final = re.compile(r'([a-z_]{1,32})\s*=\s*(?:"([^"\\]{0,2048})"|([^\s",]{1,2048}))')
_LONGEST_CHALLENGE: Final = 8192


@dataclass(slots=True)
class _Entry:
    """The state for one registry, repository and set of credentials."""

    challenge: Challenge | None = None
    token: str = field(default="", repr=False)
    end: float = 0.0
    fresh: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def keep(self, answer: "_Answer", now: float) -> None:
        """Store a token that was requested at ``now``."""
        token = answer.token or answer.access_token
        if not token:
            raise AuthError("the token service that the registry names gave no token")
        life = min(max(answer.expires_in or _LIFE, 0.0), _LONGEST_LIFE)
        self.token, self.fresh = token, True
        self.end = now + life - min(_SPARE, life / 4)


class _Answer(msgspec.Struct):
    token: str | None = None
    access_token: str | None = None
    expires_in: float | None = None


def parse(value: str) -> Challenge | None:
    """Read one value of ``WWW-Authenticate``; ``None`` is a scheme that is not spoken here."""
    match = _CHALLENGE.fullmatch(value) if len(value) <= _LONGEST_CHALLENGE else None
    if match is None:
        return None
    if match[1].lower() == "basic":
        return Challenge()
    found = {name: quoted or plain for name, quoted, plain in _PARAMETER.findall(match[2] or "")}
    if not found.get("realm"):
        return None
    return Challenge(found["realm"], found.get("service", ""), found.get("scope", ""))


def _choose(
    challenges: tuple[str, ...],
    base: str,
    repository: Repository,
    endpoint: Endpoint,
    actions: str,
) -> Challenge | None:
    """Return the challenge to answer; a token is preferred to the password itself."""
    known = [challenge for value in challenges[:8] if (challenge := parse(value))]
    bearer = next((challenge for challenge in known if challenge.realm), None)
    if bearer is not None:
        _require_realm(bearer.realm, base)
        return replace(bearer, scope=_scope(bearer.scope, repository, actions))
    return known[0] if known and endpoint.username is not None else None


def _require_realm(realm: str, base: str) -> None:
    """Check which token service a registry names (rule 1)."""
    try:
        service, registry = urlsplit(realm), urlsplit(base)
        same = service.hostname == registry.hostname
    except ValueError as exc:
        raise AuthError(f"'{base}' names a token service with an invalid URL") from exc
    if service.scheme not in ("https", "http") or not service.hostname:
        raise AuthError(f"'{base}' names a token service with an invalid URL")
    if registry.scheme == "http" and not same:
        raise AuthError(
            f"'{base}' is plain HTTP and names a token service at '{service.hostname}': "
            "credentials are not sent to another host on the word of an insecure registry"
        )
    if registry.scheme == "https" and service.scheme != "https":
        raise AuthError(f"'{base}' names a token service without TLS, at '{service.hostname}'")


def _scope(suggested: str, repository: Repository, actions: str) -> str:
    """Return the scope to request (rule 3), with the name that the registry uses."""
    kind, _, rest = suggested.partition(":")
    name = rest.rpartition(":")[0]
    if (
        kind == "repository"
        and f"/{name}".endswith(f"/{repository.name}")
        and _NAME.fullmatch(name)
    ):
        return f"repository:{name}:{actions}"
    return f"repository:{repository.name}:{actions}"


_NAME: Final = re.compile(r"[A-Za-z0-9._/:-]{1,512}")


async def _ask(
    client: Http, base: str, endpoint: Endpoint, challenge: Challenge, seconds: float
) -> _Answer:
    """Ask the token service (distribution: GET with Basic, or POST with an identity token)."""
    wanted = {"service": challenge.service, "scope": challenge.scope}
    method, url, body, headers = "GET", challenge.realm, None, {}
    login = replace(endpoint, bearer_token=None, pass_credentials=False)
    if urlsplit(url).netloc != urlsplit(base).netloc:
        login = replace(login, client_cert=None, client_key=None)
    if endpoint.identity_token is not None:
        grant = {"grant_type": "refresh_token", "refresh_token": endpoint.identity_token}
        method, body = "POST", urlencode(wanted | grant | {"client_id": "penstock"}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        login = replace(login, username=None, password=None)
    else:
        query = urlencode({key: value for key, value in wanted.items() if value})
        url += f"{'&' if '?' in url else '?'}{query}"
    try:
        async with client.request(
            method,
            url,
            endpoint=login,
            headers=headers,
            body=body,
            timeout=seconds,
            named_by=base,
        ) as response:
            data = await http.read(response, limit=_MAX_ANSWER)
        return untrusted.load_json(data, _Answer, size=_MAX_ANSWER)
    except HttpError as exc:
        if exc.status in (400, 401, 403):
            given = endpoint.username is not None or endpoint.identity_token is not None
            how = "refuses the credentials" if given else "gives no token without credentials"
            raise AuthError(
                f"the token service '{http.shown(challenge.realm)}' {how} (HTTP {exc.status})"
            ) from exc
        raise
    except untrusted.UntrustedError as exc:
        raise HttpError(f"'{http.shown(challenge.realm)}' sent an invalid response") from exc
