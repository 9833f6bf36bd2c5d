"""Tokens of OIDC issuers: signature, issuer, audience, time, and a Receiver's rules for claims.

Keys are read from the issuer (OpenID Connect Discovery 1.0), and cached for some minutes. An
unknown key causes at most one request a minute, so that senders cannot cause many requests.
"""

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import jwt
import msgspec

from controllers.notification.receiving.request import Hook, RefusedError
from crds.notification_receiver import OIDCProvider
from toolkit import untrusted
from toolkit.errors import PenstockError, StalledError
from toolkit.expressions import expression as expressions
from toolkit.expressions.evaluator import Case, Evaluates, Step
from toolkit.expressions.expression import Expression
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http import http as transport
from toolkit.remote.http.http import Http

AUDIENCE: Final = "notification-controller"
"""Audience of tokens where a Receiver names none."""
GOOGLE_KEYS: Final = "https://www.googleapis.com/oauth2/v3/certs"
_GOOGLE: Final = ("https://accounts.google.com", "accounts.google.com")
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "EdDSA")
_LEEWAY: Final = 60
_KEPT: Final = 600.0
_AGAIN: Final = 60.0
_MOST_ISSUERS: Final = 256
_LONGEST_TOKEN: Final = 16 << 10
_LONGEST_KEYS: Final = 256 << 10
_MOST_KEYS: Final = 100
_LONGEST_NUMBER: Final = 1400
"""Characters of base64."""
_SECONDS: Final = 10.0


class _Discovery(msgspec.Struct):
    issuer: str
    jwks_uri: str


_PUBLIC: Final = frozenset({"EC", "OKP", "RSA"})


class _PublicKey(msgspec.Struct, omit_defaults=True):
    """The members of a public key (RFC 7517; RFC 7518, section 6; RFC 8037), base64."""

    kty: str
    kid: str = ""
    use: str = ""
    alg: str = ""
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""

    @property
    def is_usable(self) -> bool:
        """Tell whether it is a public key, at most as long as an RSA key of 8,192 bits."""
        longest = max(map(len, (self.n, self.e, self.x, self.y)))
        return self.kty in _PUBLIC and longest <= _LONGEST_NUMBER


class _KeySet(msgspec.Struct):
    keys: list[_PublicKey]


@dataclass(slots=True)
class _Keys:
    """The keys of an issuer, and when they were read."""

    keys: Mapping[str, Any]
    read: float


def keys(body: bytes) -> Mapping[str, Any]:
    """Return the keys of a JSON Web Key Set (RFC 7517) by their ids.

    Only the members of public keys are read. To load a private RSA key, the library computes powers
    of its numbers: 0.15 s for a modulus of 4,096 bits, while no other thread runs (measured).

    Raises:
        RefusedError: the set contains no usable key.
    """
    try:
        told = untrusted.load_json(body, _KeySet, size=_LONGEST_KEYS)
        public = [msgspec.to_builtins(each) for each in told.keys[:_MOST_KEYS] if each.is_usable]
        found = jwt.PyJWKSet.from_dict({"keys": public})
    except (jwt.PyJWTError, untrusted.UntrustedError, LookupError, ValueError, TypeError) as exc:
        raise RefusedError("the issuer has no keys that can be used", status=503) from exc
    return {str(each.key_id or ""): each for each in found.keys}


class Tokens:
    """Checks tokens; ``endpoint`` gives where Receivers of a namespace may lead us."""

    def __init__(
        self,
        http: Http,
        endpoint: Callable[[str], Endpoint],
        evaluates: Evaluates,
        *,
        google_keys: str = GOOGLE_KEYS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http
        self._endpoint = endpoint
        self._evaluates = evaluates
        self._google_keys = google_keys
        self._clock = clock
        self._known: OrderedDict[tuple[str, Endpoint], _Keys] = OrderedDict()
        # One for each issuer: a tenant's that does not answer holds up no other.
        self._locks: WeakValueDictionary[tuple[str, Endpoint], asyncio.Lock] = WeakValueDictionary()

    async def require_one_of(self, hook: Hook) -> Mapping[str, Any]:
        """Require a token of one of the Receiver's issuers; return its claims.

        Raises:
            RefusedError: the token is not from these issuers, or lacks a required claim.
        """
        token = _bearer(hook)
        issuer = str(unverified(token).get("iss") or "")
        for provider in hook.receiver.spec.oidc_providers:
            if provider.issuer_url == issuer:
                keys = self._discovered(issuer)
                audience = provider.audience or AUDIENCE
                claims = await self._verified(hook, token, keys, audience, (issuer,))
                namespace = hook.receiver.metadata.namespace
                await require_claims(self._evaluates, namespace, provider, claims)
                return claims
        raise RefusedError("the token is of an issuer that the Receiver does not name")

    async def require_google(self, hook: Hook) -> None:
        """Require a token of Google for the account and audience that the Secret names.

        Raises:
            RefusedError: it is another one.
        """
        email = hook.secret.get("email", b"").strip().decode(errors="replace")
        audience = hook.secret.get("audience", b"").strip().decode(errors="replace")
        if not (email and audience):
            raise RefusedError("the Receiver's Secret lacks 'email' or 'audience'", status=503)
        token = _bearer(hook)
        keys = self._fetched(self._google_keys)
        claims = await self._verified(hook, token, keys, audience, _GOOGLE)
        said = str(claims.get("email") or "")
        right = hmac.compare_digest(said.encode(), email.encode())
        if not right or claims.get("email_verified") is not True:
            raise RefusedError("the token is of another account")

    async def _verified(
        self,
        hook: Hook,
        token: str,
        read: "_Reading",
        audience: str,
        issuers: tuple[str, ...],
    ) -> Mapping[str, Any]:
        key = await self._key(hook, token, read)
        try:
            claims: dict[str, Any] = await asyncio.to_thread(
                jwt.decode,
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=audience,
                issuer=list(issuers),
                leeway=_LEEWAY,
                options={"require": ["exp", "iat", "aud", "iss"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as exc:
            raise RefusedError(f"the token is not accepted: {type(exc).__name__}") from exc
        return claims

    async def _key(self, hook: Hook, token: str, read: "_Reading") -> Any:
        try:
            wanted = str(jwt.get_unverified_header(token).get("kid") or "")
        except jwt.PyJWTError as exc:
            raise RefusedError("the token cannot be read") from exc
        endpoint = self._endpoint(hook.receiver.metadata.namespace)
        place = (read.address, endpoint)
        lock = self._locks.setdefault(place, asyncio.Lock())
        async with lock:
            now = self._clock()
            known = self._known.get(place)
            age = now - known.read if known else _KEPT
            if known is None or age >= _KEPT or (wanted not in known.keys and age >= _AGAIN):
                known = _Keys(await self._read(read, endpoint), now)
                self._known[place] = known
                while len(self._known) > _MOST_ISSUERS:
                    self._known.popitem(last=False)
        found = known.keys.get(wanted)
        if found is None and not wanted and len(known.keys) == 1:
            found = next(iter(known.keys.values()))
        if found is None:
            raise RefusedError("the token is signed with a key that its issuer does not have")
        return found

    async def _read(self, read: "_Reading", endpoint: Endpoint) -> Mapping[str, Any]:
        try:
            address = read.address
            if read.discovers:
                said = await self._get(f"{address.rstrip('/')}{_DISCOVERY}", endpoint)
                found = untrusted.load_json(said, _Discovery, size=_LONGEST_KEYS)
                if found.issuer != address:
                    raise RefusedError("the issuer calls itself otherwise", status=503)
                address = found.jwks_uri
            return await asyncio.to_thread(keys, await self._get(address, endpoint))
        except untrusted.UntrustedError as exc:
            raise RefusedError("the issuer tells nothing that can be read", status=503) from exc
        except PenstockError as exc:
            raise RefusedError("the keys of the issuer cannot be read now", status=503) from exc

    async def _get(self, url: str, endpoint: Endpoint) -> bytes:
        async with self._http.request("GET", url, endpoint=endpoint, timeout=_SECONDS) as response:
            return await transport.read(response, limit=_LONGEST_KEYS)

    def _discovered(self, issuer: str) -> "_Reading":
        return _Reading(address=issuer, discovers=True)

    def _fetched(self, address: str) -> "_Reading":
        return _Reading(address=address, discovers=False)


_DISCOVERY: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The address of keys; ``discovers`` if it is that of an issuer with a discovery document."""

    address: str
    discovers: bool


def _bearer(hook: Hook) -> str:
    scheme, _, token = hook.header("Authorization").partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
        raise RefusedError("the header Authorization holds no token")
    return token.strip()


def unverified(token: str) -> Mapping[str, Any]:
    """Return the claims of a token without verifying it.

    Raises:
        RefusedError: the text is not a token.
    """
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError) as exc:
        raise RefusedError("the token cannot be read") from exc
    return claims


VARIABLES: Final = ("claims", "vars")


def expressions_of(provider: OIDCProvider) -> tuple[list[Expression], list[Expression]]:
    """Return the expressions of the variables and of the validations, in their order."""
    variables = [
        Expression(text=each.expression, variables=VARIABLES, result="")
        for each in provider.variables
    ]
    validations = [
        Expression(text=each.expression, variables=VARIABLES) for each in provider.validations
    ]
    return variables, validations


async def require_claims(
    evaluates: Evaluates, namespace: str, provider: OIDCProvider, claims: Mapping[str, Any]
) -> None:
    """Require that the claims pass the validations, in their order; within one budget.

    Raises:
        RefusedError: one failed; the message is that in the Receiver. Or an expression cannot be
            used.
    """
    variables, validations = expressions_of(provider)
    named = zip(variables, provider.variables, strict=True)
    case = Case(
        given={"claims": dict(claims), "vars": {}},
        steps=[
            *(Step(expression=each, bind=given.name, into="vars") for each, given in named),
            *(Step(expression=each) for each in validations),
        ],
    )
    try:
        expressions.require_few(each.text for each in (*variables, *validations))
        (outcomes,) = await evaluates.evaluate(namespace, [case], doubles=True)
        for each, outcome in zip(variables, outcomes, strict=False):
            expressions.require_evaluated(each, outcome)
        told = zip(validations, provider.validations, outcomes[len(variables) :], strict=True)
        for each, validation, outcome in told:
            if not expressions.holds(each, outcome):
                raise RefusedError(validation.message)
    except StalledError as exc:
        raise RefusedError(f"the claims cannot be judged: {exc}", status=503) from exc
