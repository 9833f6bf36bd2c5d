"""Who sends a request: named by the front proxy, by a certificate or by a token, or anonymous.

The order is upstream's (apiserver ``authenticatorfactory/delegating.go``), because a user must be
the same at each server:

1. the front proxy, if its certificate proves that it is one (``requestheader``);
2. a client certificate (``x509``);
3. a bearer token (``tokens``);
4. an authenticated user is also in ``system:authenticated``;
5. a client without credentials is anonymous, and one with invalid credentials gets 401.

As upstream, an unusable certificate does not invalidate a good token.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from multidict import CIMultiDict, MultiMapping

from apiserver.auth import requestheader, tokens, x509
from apiserver.auth.authorities import UntrustedError
from apiserver.auth.configuration import Trust
from apiserver.auth.tokens import Tokens
from apiserver.call import User
from apiserver.status import StatusError, unavailable
from toolkit.kube.errors import ApiError

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
_IMPERSONATE: Final = "impersonate-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of a request: the certificate (DER) of the connection, and headers."""

    certificate: bytes | None
    headers: MultiMapping[str]


class Authentication:
    """Authenticates requests; ``trust`` is passed to every call, because it changes."""

    def __init__(self, known: Tokens) -> None:
        self._tokens = known

    async def user(self, trust: Trust, shown: Credentials) -> User:
        """Return the user of a request.

        Raises:
            StatusError: 401, the credentials are invalid; 503, they cannot be checked.
        """
        found = await self._found(trust, shown)
        if found is None:
            # 5.
            return User(name=ANONYMOUS, groups=(UNAUTHENTICATED,))
        if not _text(found):
            raise unauthorized()
        # 4.
        if found.name == ANONYMOUS or {AUTHENTICATED, UNAUTHENTICATED} & set(found.groups):
            return found
        return replace(found, groups=(*found.groups, AUTHENTICATED))

    async def _found(self, trust: Trust, shown: Credentials) -> User | None:
        refused = False
        if shown.certificate is not None:
            # 1. and 2.
            for user in _certified(trust, shown.certificate, shown.headers):
                if user is not None:
                    return user
                refused = True
        token = tokens.bearer(shown.headers.get("Authorization", ""))
        if token:
            # 3.
            user = await self._of_token(token)
            if user is not None:
                return user
            refused = True
        if refused:
            raise unauthorized()
        return None

    async def _of_token(self, token: str) -> User | None:
        try:
            return await self._tokens.user(token)
        except ApiError as exc:
            raise unavailable("the API server does not say whose token this is; retry") from exc


def stripped(trust: Trust, headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the headers without credentials and without those that only front proxies may send."""
    kept = CIMultiDict(headers.items())
    for name in set(headers):
        if name.lower() == "authorization" or requestheader.is_told(trust, name):
            kept.popall(name, None)
    return kept


def forwarded(trust: Trust, shown: Credentials) -> tuple[str, ...]:
    """Return the source addresses from a front proxy; those of other clients do not count."""
    told = ",".join(shown.headers.getall("X-Forwarded-For", ()))
    if not told or shown.certificate is None:
        return ()
    try:
        requestheader.user(trust, shown.certificate, shown.headers)
    except UntrustedError:
        return ()
    return tuple(part.strip() for part in told.split(","))


def impersonates(headers: MultiMapping[str]) -> bool:
    """Tell whether the request asks for impersonation."""
    return any(name.lower().startswith(_IMPERSONATE) for name in headers)


def unauthorized() -> StatusError:
    """Return the error for invalid credentials, without details."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def _certified(
    trust: Trust, certificate: bytes, headers: MultiMapping[str]
) -> Iterator[User | None]:
    """Yield the users of the certificate: as a front proxy's, and as a client's.

    Yield None for a certificate that is neither, and for one without a name.
    """
    try:
        yield requestheader.user(trust, certificate, headers)
    except UntrustedError:
        yield None
    try:
        yield x509.user(trust, certificate)
    except UntrustedError:
        yield None


def _text(user: User) -> bool:
    """Tell whether the names can be written down: bytes of headers need not be text."""
    words = [user.name, user.uid, *user.groups, *user.extra]
    words += [value for values in user.extra.values() for value in values]
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return False
    return True
