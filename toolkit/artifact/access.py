"""Who may ask for more than to read: asked of the API server, so that RBAC is the only list.

A token is a ServiceAccount's, made for one audience: it opens nothing else, and a token made for
anything else does not open this. Whoever may write the status of an ExternalArtifact may upload
what that status names. Both answers are remembered for a few seconds, the token as a hash.
"""

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from toolkit.artifact.store import Owner
from toolkit.errors import AccessDeniedError, TransientError
from toolkit.objects import Json, dig

AUDIENCE: Final = "artifacts.penstock.dev"
"""``spec.audiences`` of the TokenRequest, ``audience`` of the projected volume."""

GROUP: Final = "source.toolkit.fluxcd.io"
RESOURCE: Final = "externalartifacts"
SUBRESOURCE: Final = "status"
VERB: Final = "update"

T = TypeVar("T")


class Api(Protocol):
    """The API server, as ``toolkit.kube.client.Client`` reaches it."""

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        """Send a request and return the decoded answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Whose token it is, as ``TokenReview.status.user`` says."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What somebody wants to do, as ``SubjectAccessReview.spec.resourceAttributes`` says."""

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
        self._users: _Memory[User | None] = _Memory(now)
        self._grants: _Memory[bool] = _Memory(now)
        self._turns = asyncio.Semaphore(_ASKING)
        self._waiting = 0

    async def authenticate(self, authorization: str) -> User:
        """Return who sent this ``Authorization`` header.

        Raises:
            UnauthenticatedError: nobody that is known here.
            TransientError: the API server does not answer, or too many ask at once.
        """
        match = _BEARER.fullmatch(authorization)
        if match is None:
            raise UnauthenticatedError(
                f"send 'Authorization: Bearer <token>' with a ServiceAccount's token for the "
                f"audience '{self._audience}'"
            )
        key = hashlib.sha256(match["token"].encode()).hexdigest()
        known = self._users.recall(key)
        if known is None:
            async with self._turn():
                known = self._users.keep(key, await self._review(match["token"]))
        if known.value is None:
            raise UnauthenticatedError(
                f"the token is not valid for the audience '{self._audience}', or has expired"
            )
        return known.value

    async def authorize(self, user: User, owner: Owner) -> None:
        """Let pass who may upload for ``owner``, whether or not that exists.

        Raises:
            AccessDeniedError: RBAC does not allow it; the text depends on the question alone.
            TransientError: the API server does not answer, or too many ask at once.
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
        """Tell whether RBAC lets a user do something.

        Raises:
            TransientError: the API server does not answer, or too many ask at once.
        """
        key = f"{user!r} {wanted!r}"
        known = self._grants.recall(key)
        if known is None:
            async with self._turn():
                known = self._grants.keep(key, await self._allowed(user, wanted))
        return known.value

    async def _review(self, token: str) -> User | None:
        """Return whose token it is (authentication.k8s.io/v1 ``TokenReview``)."""
        answer = await self._api.request(
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token, "audiences": [self._audience]},
            },
        )
        # A server that knows nothing of audiences names none; its yes is no answer to us.
        ours = self._audience in dig(answer, "status", "audiences", default=[])
        user = dig(answer, "status", "user", default={})
        if dig(answer, "status", "authenticated") is not True or not ours:
            return None
        return User(
            name=str(user.get("username") or ""),
            uid=str(user.get("uid") or ""),
            groups=tuple(user.get("groups") or ()),
            extra=user.get("extra") or {},
        )

    async def _allowed(self, user: User, wanted: Attributes) -> bool:
        """Ask RBAC (authorization.k8s.io/v1 ``SubjectAccessReview``)."""
        answer = await self._api.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            body={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": user.name,
                    "uid": user.uid,
                    "groups": list(user.groups),
                    "extra": user.extra,
                    "resourceAttributes": asdict(wanted),
                },
            },
        )
        return dig(answer, "status", "allowed") is True

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
"""Questions asked or waiting; one more is refused at once."""
_REMEMBERED: Final = 1024
_SECONDS: Final = 10.0
"""How long an answer is believed, be it yes or no."""
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[A-Za-z0-9._~+/-]{1,16384}=*)")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    value: T
    until: float


class _Memory(Generic[T]):
    """The last answers, for a moment."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: OrderedDict[str, _Answer[T]] = OrderedDict()

    def recall(self, key: str) -> _Answer[T] | None:
        answer = self._answers.get(key)
        return answer if answer is not None and self._now() < answer.until else None

    def keep(self, key: str, value: T) -> _Answer[T]:
        answer = self._answers[key] = _Answer(value, self._now() + _SECONDS)
        self._answers.move_to_end(key)
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return answer
