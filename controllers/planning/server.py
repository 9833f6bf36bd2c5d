"""The HTTP server for plans: ``GET /plan/<namespace>/<name>[?revision=]``.

The aggregated API is its client, and authorizes its own users. Each controller that applies objects
serves the plans of its kind. Every replica does, because a plan writes nothing. A request passes
these steps, in this order:

1. The path must have valid names of a namespace and an object.
2. The token must be that of a ServiceAccount, with the audience of this server only.
3. RBAC must allow the account to ``get`` the subresource ``plan`` of the inventory.
4. The request waits in a queue, for a limited time. The length of the queue is limited, and the
   queue is fair to namespaces: one with slow builds does not delay others.

Before step 3 has passed, the response does not tell whether the object exists.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from aiohttp import web

from controllers.applying import denials
from controllers.planning.plans import Plan
from controllers.planning.revisions import UnknownRevisionError
from crds import meta
from crds.kind import Kind
from toolkit import turns
from toolkit.artifact.access import Access, Attributes, BusyError, UnauthenticatedError
from toolkit.errors import AccessDeniedError, PenstockError, StalledError, WaitingError
from toolkit.kube import errors
from toolkit.objects import ObjectKey
from toolkit.turns import Turns

logger = logging.getLogger(__name__)

AUDIENCE: Final = "penstock-plan"
GROUP: Final = "gitops.penstock.dev"
PATH: Final = "/plan/{namespace}/{name}"

_SECONDS: Final = 50.0
_QUEUE_SECONDS: Final = 20.0
_TURNS: Final = 3
"""Concurrent plans, at most two for a namespace: plans share CPU and requests with reconciliations.
"""
_WAITING: Final = 16
_MAX_REVISION: Final = 2048
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""DNS-1123 subdomain, which namespaces and appliers are."""


class Planned(Protocol):
    """An object that applies others."""

    @property
    def metadata(self) -> meta.ObjectMeta:
        """Return the metadata of the object."""


T = TypeVar("T", bound=Planned)
T_contra = TypeVar("T_contra", bound=Planned, contravariant=True)


class Planner(Protocol[T_contra]):
    """Makes plans of a kind."""

    async def plan(self, obj: T_contra, revision: str = "") -> Plan:
        """Return the changes that a reconciliation of a revision (default: current) would make.

        Raises the typed errors of a reconciliation; the messages contain no secret value.
        """


class PlanServer(Generic[T]):
    """Serves plans to callers that ``access`` admits; their tokens have the audience ``AUDIENCE``.

    The names of the kind's inventories start with ``prefix`` (``apiserver.inventories``).
    """

    def __init__(
        self,
        planner: Planner[T],
        *,
        kind: Kind[Any],
        access: Access,
        lookup: Callable[[ObjectKey], T | None],
        prefix: str = "",
    ) -> None:
        self._planner = planner
        self._kind = kind.kind
        self._prefix = prefix
        self._access = access
        self._lookup = lookup
        self._turns = Turns(places=_TURNS, waiting=_WAITING)

    def application(self) -> web.Application:
        """Return the server."""
        app = web.Application()
        app.router.add_get(PATH, self.handle, allow_head=False)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request: 200 with the plan, or an error."""
        try:
            with denials.explaining():
                plan = await self._find(request)
        except PenstockError as error:
            return _refusal(error)
        except TimeoutError:
            return _refusal(BusyError("the plan took too long: retry later"))
        return web.Response(body=msgspec.json.encode(plan), content_type="application/json")

    async def _find(self, request: web.Request) -> Plan:
        # 1.
        names = request.match_info
        key = ObjectKey(names["namespace"], names["name"])
        revision = request.query.get("revision", "")
        if not (_NAME.fullmatch(key.namespace) and _NAME.fullmatch(key.name)):
            raise NoObjectError(f"this is not a name of a {self._kind}")
        if len(revision) > _MAX_REVISION:
            raise UnknownRevisionError("this is not a revision")
        # 2.
        user = await self._access.authenticate(request.headers.get("Authorization", ""))
        # 3.
        wanted = Attributes(
            group=GROUP,
            resource="inventories",
            subresource="plan",
            verb="get",
            namespace=key.namespace,
            name=f"{self._prefix}{key.name}",
        )
        if not await self._access.allows(user, wanted):
            raise NotAllowedError(
                f"'{user.name}' may not request plans: it needs the verb 'get' on"
                f" 'inventories/plan' of '{GROUP}' in '{key.namespace}'"
            )
        # 4.
        async with (
            asyncio.timeout(_QUEUE_SECONDS) as queued,
            self._turns.turn(key.namespace),
        ):
            queued.reschedule(asyncio.get_running_loop().time() + _SECONDS)
            return await self._planner.plan(self._object(key), revision)

    def _object(self, key: ObjectKey) -> T:
        obj = self._lookup(key)
        if obj is None or obj.metadata.deletion_timestamp:
            raise NoObjectError(f"{self._kind} '{key}' does not exist, or is being deleted")
        return obj


class NoObjectError(StalledError):
    """There is no such object."""

    default_reason = "NotFound"


class NotAllowedError(AccessDeniedError):
    """RBAC does not let the caller ask; that a policy forbids the source is another matter."""


class _Problem(msgspec.Struct):
    reason: str
    message: str


_STATUSES: Final[tuple[tuple[type[PenstockError], int], ...]] = (
    # The first row that fits decides.
    (UnauthenticatedError, 401),
    (NotAllowedError, 403),
    (NoObjectError, 404),
    (UnknownRevisionError, 404),
    (BusyError, 429),
    (turns.BusyError, 429),
    (errors.UnreachableError, 503),
    (errors.TooManyRequestsError, 503),
    (WaitingError, 409),
    (PenstockError, 422),
)


def _refusal(error: PenstockError) -> web.Response:
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    if status >= 500:
        logger.info("no plan", extra={"error": str(error)})
    body = msgspec.json.encode(_Problem(reason=error.reason, message=str(error)))
    response = web.Response(status=status, body=body, content_type="application/json")
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        response.headers["Retry-After"] = "5"
    return response
