"""Lists of the stored artifacts of a source object, for users who may list such objects.

``GET /<kind>/<namespace>/<name>/`` answers with a JSON document: ``backend``, and ``artifacts``,
newest first, each with ``file``, ``digest``, ``size``, ``modified``, and if known ``revision``,
``metadata`` and ``expires``. To read a file, a client must know its name, which contains a commit
or a digest. A list discloses these names, and names of tenants. So it needs a token for its
audience, and the verb ``list`` on the kind in the namespace, which allows reading the same names
from the API server.
"""

import logging
from typing import Final, Protocol

import msgspec
from aiohttp import web

from toolkit.artifact.about import Backend, Kept
from toolkit.artifact.access import Access, Attributes, UnauthenticatedError
from toolkit.artifact.kinds import KINDS
from toolkit.artifact.store import Owner
from toolkit.errors import AccessDeniedError, PenstockError, StalledError

logger = logging.getLogger(__name__)

AUDIENCE: Final = "index.artifacts.penstock.dev"
"""The audience of tokens for indexes."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One artifact; times are in seconds since the epoch, see ``toolkit.artifact.about.Kept``."""

    file: str
    digest: str
    size: int
    modified: float
    revision: str = ""
    metadata: dict[str, str] = {}
    expires: float | None = None


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The stored artifacts of one object."""

    backend: str = ""
    """``local`` or ``bucket``."""
    artifacts: tuple[Entry, ...] = ()


class Store(Protocol):
    """The part of a store that is needed here."""

    @property
    def backend(self) -> Backend:
        """Tell where the bytes lie."""

    async def kept(self, owner: Owner) -> tuple[Kept, ...]:
        """Return the owner's artifacts, the newest first."""
        ...


class Indexes:
    """Serves the lists of ``store`` to users that ``access``, made for ``AUDIENCE``, allows."""

    def __init__(self, store: Store, *, access: Access) -> None:
        self._store = store
        self._access = access

    def mount(self, app: web.Application) -> None:
        """Add the route to the artifact server."""
        app.router.add_get("/{kind}/{namespace}/{name}/", self.handle)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        try:
            index = await self._find(request)
        except PenstockError as error:
            return _refusal(error)
        return web.Response(body=msgspec.json.encode(index), content_type="application/json")

    async def _find(self, request: web.Request) -> Index:
        # 1. Who asks is a ServiceAccount with a token that was made for this.
        user = await self._access.authenticate(request.headers.get("Authorization", ""))
        # 2. The path names an object of a kind that has artifacts.
        names = request.match_info
        kind = KINDS.get(names["kind"])
        if kind is None:
            raise StalledError("this kind has no artifacts")
        owner = Owner(kind=kind.kind, namespace=names["namespace"], name=names["name"])
        _ = owner.path
        # 3. The user may list such objects in the namespace. One review per namespace is enough.
        wanted = Attributes(
            group=kind.group, resource=kind.plural, verb="list", namespace=owner.namespace
        )
        if not await self._access.allows(user, wanted):
            raise AccessDeniedError(
                f"'{user.name}' may not see what is stored for {kind.kind}s in "
                f"'{owner.namespace}': it needs the verb 'list' on '{kind.plural}' of "
                f"'{kind.group}' there"
            )
        # 4. What is not there is an empty answer: the object may just have no artifact.
        kept = await self._store.kept(owner)
        return Index(
            backend=self._store.backend,
            artifacts=tuple(msgspec.convert(each, Entry, from_attributes=True) for each in kept),
        )


_STATUSES: Final[tuple[tuple[type[PenstockError], int], ...]] = (
    # The first row that fits decides.
    (UnauthenticatedError, 401),
    (AccessDeniedError, 403),
    (StalledError, 400),
    (PenstockError, 503),
)


def _refusal(error: PenstockError) -> web.Response:
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    if status >= 500:
        logger.error("index cannot be told", extra={"error": str(error)})
    response = web.json_response({"error": str(error)}, status=status)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status >= 500:
        response.headers["Retry-After"] = "5"
    return response
