"""The upload interface: third-party source controllers send the content of their ExternalArtifacts.

``PUT /externalartifact/<namespace>/<name>/<file>`` with a bearer token stores the body and answers
with the artifact to write into the object's status. Only this kind can be uploaded, and only by
users who may write that status anyway: the interface gives no permission that RBAC has not given.

The body is untrusted: it is bounded in size, pace and number, and read through once with the
consumers' limits before it can be fetched. docs/artifact-store.md has the contract.
"""

import logging
from pathlib import Path
from typing import Final, Protocol

import msgspec
from aiohttp import web

from crds import EXTERNAL_ARTIFACT, misfits
from crds.meta import Artifact
from toolkit import disk
from toolkit.artifact import archive, intake, layout, spool, threads
from toolkit.artifact.access import Access, UnauthenticatedError, User
from toolkit.artifact.archive import Packed
from toolkit.artifact.intake import (
    Claims,
    DigestMismatchError,
    Pace,
    TooLargeError,
    TooSlowError,
)
from toolkit.artifact.quota import Quota, QuotaError, TooManyError, Turnstile, UploadLimits
from toolkit.artifact.store import Owner, Store
from toolkit.errors import AccessDeniedError, PenstockError, StalledError, TransientError
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

logger = logging.getLogger(__name__)

KIND: Final = GroupVersionKind(
    EXTERNAL_ARTIFACT.group, EXTERNAL_ARTIFACT.version, EXTERNAL_ARTIFACT.kind
)
PATH: Final = f"/{KIND.kind.lower()}/{{namespace}}/{{name}}/{{filename}}"


DEFAULT: Final = UploadLimits()
PATIENT: Final = Pace()


class Objects(Protocol):
    """The API server, as ``toolkit.kube.client.Client`` reads it."""

    async def get(self, gvk: GroupVersionKind, name: str, namespace: str = "") -> Json:
        """Read one object. Raises ``NotFoundError``."""
        ...


class RefusedError(PenstockError):
    """The body is nothing that consumers would take."""


class NoObjectError(PenstockError):
    """The ExternalArtifact does not exist, or is about to go."""


class Uploads:
    """Takes uploads into ``store``; half-done ones lie in ``scratch``."""

    def __init__(  # noqa: PLR0913  # its neighbours, and settings with defaults
        self,
        store: Store,
        *,
        access: Access,
        objects: Objects,
        scratch: Path,
        limits: UploadLimits = DEFAULT,
        pace: Pace = PATIENT,
    ) -> None:
        self._store = store
        self._access = access
        self._objects = objects
        self._scratch = scratch
        self._limit = limits.artifact_bytes
        self._pace = pace
        self._turnstile = Turnstile(limits)
        self._quota = Quota(store, kind=KIND.kind, limit=limits.namespace_bytes)

    def mount(self, app: web.Application) -> None:
        """Add the route to the artifact server."""
        app.router.add_put(PATH, self.handle, expect_handler=_not_yet)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one upload: 201 with the artifact, or why not."""
        try:
            artifact = await self._take(request)
        except PenstockError as error:
            return _refusal(error)
        except ConnectionError as error:
            logger.info("upload broke off", extra={"error": str(error) or type(error).__name__})
            return _refusal(RefusedError("the connection broke"))
        return web.Response(
            status=201,
            body=msgspec.json.encode(artifact),
            content_type="application/json",
            headers={"Location": artifact.url, "X-Artifact-Digest": artifact.digest},
        )

    async def _take(self, request: web.Request) -> Artifact:
        # 1. The path names an artifact of an ExternalArtifact.
        owner, filename = _target(request)
        # 2. Who asks is a ServiceAccount with a token that was made for this.
        user = await self._access.authenticate(request.headers.get("Authorization", ""))
        # 3. RBAC allows the user to write the status of the object. Up to here, answers do not
        # depend on existing objects.
        await self._access.authorize(user, owner)
        # 4. Not too many do so.
        async with self._turnstile.turn(owner.namespace):
            # 5. The object exists, so that its deletion removes the artifact.
            obj = await self._object(owner)
            # 6. The headers are valid, and the quota is not exceeded.
            claims, revision = _stated(request)
            await self._require_room(request, owner)
            async with spool.directory(self._scratch) as directory:
                file = directory / "body"
                # 7. The body is as long, as fast and as intact as it must be.
                packed = await self._receive(request, file, claims)
                # 8. Consumers will be able to unpack it.
                await self._check(file)
                # 9. It is stored, if there still is room, and older ones go.
                async with self._quota.room(owner.namespace, packed.size):
                    artifact = await self._store.store_file(
                        owner,
                        revision=revision or f"latest@{packed.digest}",
                        filename=filename,
                        file=file,
                    )
            await self._collect(owner, obj)
        _tell(artifact, owner, user)
        return artifact

    async def _object(self, owner: Owner) -> Json:
        try:
            obj = await self._objects.get(KIND, owner.name, owner.namespace)
        except NotFoundError:
            obj = {}
        if not obj or dig(obj, "metadata", "deletionTimestamp"):
            raise NoObjectError(
                f"ExternalArtifact '{owner.namespace}/{owner.name}' does not exist or is being "
                "deleted: create it before its artifact"
            )
        return obj

    async def _require_room(self, request: web.Request, owner: Owner) -> None:
        if (request.content_length or 0) > self._limit:
            raise intake.too_large(self._limit)
        await self._quota.require(owner.namespace, request.content_length or 0)

    async def _receive(self, request: web.Request, file: Path, claims: Claims) -> Packed:
        if "Expect" in request.headers:
            # Only now: a sender that waits for this sends nothing in vain.
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        try:
            return await intake.receive(
                request.content, file, limit=self._limit, claims=claims, pace=self._pace
            )
        except ConnectionError:
            raise
        except OSError as exc:
            raise TransientError(f"cannot keep the upload: {disk.why(exc, file)}") from exc

    async def _check(self, file: Path) -> None:
        try:
            await threads.run(lambda checkpoint: archive.check(file, checkpoint=checkpoint))
        except TransientError as exc:
            raise RefusedError(f"consumers could not unpack it: {exc}") from exc

    async def _collect(self, owner: Owner, obj: Json) -> None:
        """Delete expired artifacts; never the one in the status."""
        current: Artifact | None = None
        try:
            current = msgspec.convert(dig(obj, "status", "artifact"), Artifact | None)
            await self._store.collect(owner, current=current)
        except (PenstockError, msgspec.ValidationError) as error:
            logger.warning(
                "older artifacts not cleaned up",
                extra={"owner": owner.path, "error": misfits.told(error)},
            )


_SUFFIXES: Final = (".tar.gz", ".tgz")
_LONGEST_REVISION: Final = 512
_STATUSES: Final[tuple[tuple[type[PenstockError], int], ...]] = (
    # The first row that fits decides.
    (UnauthenticatedError, 401),
    (AccessDeniedError, 403),
    (TooSlowError, 408),
    (NoObjectError, 409),
    (TooLargeError, 413),
    (RefusedError, 422),
    (TooManyError, 429),
    (QuotaError, 507),
    (DigestMismatchError, 400),
    (StalledError, 400),  # a name, a header
    (PenstockError, 503),  # the API server, the disk, the bucket
)


async def _not_yet(request: web.Request) -> None:
    """Leave ``100 Continue`` to the handler, which first authenticates the client."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        raise web.HTTPExpectationFailed


def _target(request: web.Request) -> tuple[Owner, str]:
    names = request.match_info
    owner = Owner(kind=KIND.kind, namespace=names["namespace"], name=names["name"])
    filename = names["filename"]
    layout.require_path(owner.file(filename))
    if not filename.endswith(_SUFFIXES):
        raise StalledError("an uploaded artifact is a gzipped tarball, *.tar.gz or *.tgz")
    return owner, filename


def _stated(request: web.Request) -> tuple[Claims, str]:
    """Return the digests and the revision in the headers."""
    # each header of that name, which a sender may repeat
    encodings = request.headers.getall("Content-Encoding", ())
    if any(each.lower() != "identity" for each in encodings):
        raise StalledError("send the file as it is, without Content-Encoding")
    revision = request.query.get("revision", "") or request.headers.get("X-Artifact-Revision", "")
    plain = revision.isprintable() and " " not in revision
    if len(revision) > _LONGEST_REVISION or not plain:
        raise StalledError(
            f"a revision has at most {_LONGEST_REVISION} printable characters, and no spaces"
        )
    return Claims.of(request.headers), revision


def _refusal(error: PenstockError) -> web.Response:
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    if status >= 500:
        logger.error("upload failed", extra={"error": str(error)})
    response = web.json_response({"error": str(error)}, status=status)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503, 507):
        response.headers["Retry-After"] = str(getattr(error, "retry_after", None) or 5)
    # The rest of the body is not needed.
    response.force_close()
    return response


def _tell(artifact: Artifact, owner: Owner, user: User) -> None:
    logger.info(
        "artifact uploaded",
        extra={
            "object": f"{owner.namespace}/{owner.name}",
            "digest": artifact.digest,
            "size": artifact.size,
            "user": user.name,
        },
    )
