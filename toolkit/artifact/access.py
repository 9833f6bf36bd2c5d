"""Authorize requests that do more than read a file, by asking the API server; RBAC has the rules.

A token belongs to a ServiceAccount and was created for one audience: it is not valid elsewhere, and
other tokens are not valid here. A user who may write the status of an ExternalArtifact may upload
the artifact of that status. Answers of the API server are cached for a few seconds, by a hash of
the token.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Final

from toolkit.artifact.store import Owner
from toolkit.errors import AccessDeniedError, TransientError
from toolkit.kube import reviews
from toolkit.kube.memory import Memory
from toolkit.kube.reviews import Api, User

__all__ = ["AUDIENCE", "Access", "Attributes", "BusyError", "UnauthenticatedError", "User"]

AUDIENCE: Final = "artifacts.penstock.dev"
"""``spec.audiences`` of the TokenRequest, ``audience`` of the projected volume."""

GROUP: Final = "source.toolkit.fluxcd.io"
RESOURCE: Final = "externalartifacts"
SUBRESOURCE: Final = "status"
VERB: Final = "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The action of a request, as in ``SubjectAccessReview.spec.resourceAttributes``."""

    group: str
    resource: str
    subresource: str = ""
    verb: str
    namespace: str
    name: str = ""


class UnauthenticatedError(AccessDeniedError):
    """There is no token, or the API server does not take it."""


class BusyError(TransientError):
    """Too many ask at the same time."""


class Access:
    """Asks the API server, a bounded number of questions at a time."""

    def __init__(
        self, api: Api, *, audience: str = AUDIENCE, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._audience = audience
        self._users: Memory[User | None] = Memory(size=_REMEMBERED, now=now)
        self._grants: Memory[bool] = Memory(size=_REMEMBERED, now=now)
        self._turns = asyncio.Semaphore(_ASKING)
        self._waiting = 0

    async def authenticate(self, authorization: str) -> User:
        """Return the user of an ``Authorization`` header.

        Raises:
            UnauthenticatedError: the header has no valid token.
            TransientError: the API server does not answer, or too many requests wait for it.
        """
        match = _BEARER.fullmatch(authorization)
        if match is None:
            raise UnauthenticatedError(
                f"send 'Authorization: Bearer <token>' with a ServiceAccount's token for the "
                f"audience '{self._audience}'"
            )
        user = await self._user(match["token"])
        if user is None:
            raise UnauthenticatedError(
                f"the token is not valid for the audience '{self._audience}', or has expired"
            )
        return user

    async def authorize(self, user: User, owner: Owner) -> None:
        """Require that the user may upload for ``owner``, whether or not the object exists.

        Raises:
            AccessDeniedError: RBAC does not allow it; the message depends only on the request.
            TransientError: the API server does not answer, or too many requests wait for it.
        """
        wanted = Attributes(
            group=GROUP,
            resource=RESOURCE,
            subresource=SUBRESOURCE,
            verb=VERB,
            namespace=owner.namespace,
            name=owner.name,
        )
        if not await self.allows(user, wanted):
            raise AccessDeniedError(
                f"'{user.name}' may not upload for ExternalArtifact "
                f"'{owner.namespace}/{owner.name}': it needs the verb '{VERB}' on "
                f"'{RESOURCE}/{SUBRESOURCE}' of '{GROUP}' there"
            )

    async def allows(self, user: User, wanted: Attributes) -> bool:
        """Tell whether RBAC allows a user an action.

        Raises:
            TransientError: the API server does not answer, or too many requests wait for it.
        """
        spec = reviews.question(user, resourceAttributes=asdict(wanted))
        key = reviews.key(spec)
        known = self._grants.recall(key)
        if known is not None:
            return known.value
        async with self._turn():
            answer = await reviews.allowed(self._api, spec)
        return self._grants.keep(key, answer.allowed, seconds=_SECONDS)

    async def _user(self, token: str) -> User | None:
        key = hashlib.sha256(token.encode()).digest()
        known = self._users.recall(key)
        if known is not None:
            return known.value
        async with self._turn():
            user = await reviews.whose(self._api, token, audience=self._audience)
        return self._users.keep(key, user, seconds=_SECONDS)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._waiting >= _QUEUE:
            raise BusyError("too many requests are being authorized at the same time")
        self._waiting += 1
        try:
            async with self._turns:
                yield
        finally:
            self._waiting -= 1


_ASKING: Final = 8
"""Questions to the API server at a time."""
_QUEUE: Final = 128
"""Limit of requests to the API server, running or waiting; one more is refused at once."""
_REMEMBERED: Final = 1024
_SECONDS: Final = 10.0
"""How long an answer is cached, whether positive or negative."""
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[A-Za-z0-9._~+/-]{1,16384}=*)")
