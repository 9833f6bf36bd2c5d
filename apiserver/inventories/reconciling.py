"""``inventories/reconcile``: ask for a reconcile now, as the annotation does.

The caller needs nothing but ``create`` on this subresource. What is written is one annotation each
with a stamp of our own making, so nothing of the caller's gets into the patch:

1. The body says yes or no to three things, and nothing else counts (``wishes``).
2. The applier is the one that the inventory is of, as our cache has it.
3. A suspended one is refused: it would not answer.
4. The patch names the applier's uid, so that no namesake is meant, and it holds annotations only.
5. With the sources: those that the applier itself names, in its own namespace. A neighbour's is not
   ours to wake.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
from aiohttp import web

from apiserver import encoding, status
from apiserver.call import Call
from apiserver.inventories import wishes
from apiserver.inventories.finding import RESOURCE, Known, Ready, answer, find
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.wishes import Wishes
from crds import BUCKET, GIT_REPOSITORY, HELM_CHART, HELM_REPOSITORY, OCI_REPOSITORY
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json

REQUESTED: Final = "reconcile.fluxcd.io/requestedAt"
FORCED: Final = "reconcile.fluxcd.io/forceAt"
RESET: Final = "reconcile.fluxcd.io/resetAt"
MANAGER: Final = "penstock-apiserver"

_SOURCES: Final = {
    kind.kind: GroupVersionKind(*kind.gvk)
    for kind in (
        GIT_REPOSITORY,
        OCI_REPOSITORY,
        BUCKET,
        HELM_REPOSITORY,
        HELM_CHART,
    )
}
"""Sources that fetch; other sources cannot be reconciled."""
_MAX_BODY: Final = 4096


class Reconciling:
    """Writes the annotations with our own rights."""

    def __init__(
        self,
        api: Client,
        inventories: Known,
        view: Ready,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._inventories = inventories
        self._view = view
        self._now = now

    async def handle(self, call: Call) -> web.StreamResponse:
        """Ask for a reconcile of the applier whose inventory the call names."""
        # 1.
        wanted, warnings = wishes.read(await _sent(call), call.query.get("fieldValidation", ""))
        dry_run = _dry_run(call)
        # 2.
        inventory = find(call, self._inventories, self._view)
        # 3.
        _require_active(inventory)
        stamp = self._now().isoformat().replace("+00:00", "Z")
        if wanted.with_source:
            await self._wake_sources(inventory, stamp, dry_run=dry_run)
        await self._wake(inventory, wanted, stamp, dry_run=dry_run)
        response = await encoding.respond(
            call,
            answer(
                wishes.KIND,
                inventory,
                {
                    **msgspec.to_builtins(wanted),
                    "requestedAt": stamp,
                    "applierRef": {
                        "apiVersion": inventory.applier.gvk.api_version,
                        "kind": inventory.applier.kind.kind,
                        "name": inventory.applied.key.name,
                    },
                },
            ),
            code=201,
        )
        for each in warnings:
            response.headers.add("Warning", each)
        return response

    async def _wake(
        self, inventory: Inventory, wanted: Wishes, stamp: str, *, dry_run: bool
    ) -> None:
        # 4.
        applied = inventory.applied
        notes = {REQUESTED: stamp}
        notes |= {FORCED: stamp} if wanted.force else {}
        notes |= {RESET: stamp} if wanted.reset else {}
        body: Json = {"metadata": {"uid": applied.uid, "annotations": notes}}
        try:
            await self._api.patch(
                inventory.applier.gvk,
                applied.key.name,
                applied.key.namespace,
                body,
                strategy="merge",
                manager=MANAGER,
                dry_run=dry_run,
            )
        except errors.NotFoundError as exc:
            raise status.not_found(RESOURCE, inventory.key.name) from exc
        except errors.ApiError as exc:
            raise _refused(inventory, exc) from exc

    async def _wake_sources(self, inventory: Inventory, stamp: str, *, dry_run: bool) -> None:
        # 5.
        own = inventory.applied.key.namespace
        for source in inventory.applied.sources:
            gvk = _SOURCES.get(source.kind)
            if gvk is None or source.namespace != own:
                continue
            body: Json = {"metadata": {"annotations": {REQUESTED: stamp}}}
            try:
                await self._api.patch(
                    gvk, source.name, own, body, strategy="merge", manager=MANAGER, dry_run=dry_run
                )
            except errors.NotFoundError:
                continue  # The reconciliation of the applier will report it.
            except errors.ApiError as exc:
                raise _refused(inventory, exc) from exc


async def _sent(call: Call) -> bytes:
    body = await call.web.content.read(_MAX_BODY + 1)
    while len(body) <= _MAX_BODY and (more := await call.web.content.read(_MAX_BODY)):
        body += more
    if len(body) > _MAX_BODY:
        raise status.bad_request(f"the body is longer than {_MAX_BODY} bytes")
    return body


def _dry_run(call: Call) -> bool:
    values = set(call.query.getall("dryRun", []))
    if values - {"All"}:
        raise status.bad_request("dryRun: the only value there is is All")
    return bool(values)


def _require_active(inventory: Inventory) -> None:
    if inventory.applied.suspended:
        kind, key = inventory.applier.kind.kind, inventory.applied.key
        raise status.StatusError(
            409,
            "Conflict",
            f"{kind} '{key}' is suspended: resume it (spec.suspend: false) to reconcile it",
            status.Details(name=inventory.key.name, group=status.GROUP, kind=RESOURCE),
        )


def _refused(inventory: Inventory, exc: errors.ApiError) -> status.StatusError:
    """Return the error that the annotation could not be written; it is no permission error."""
    kind, key = inventory.applier.kind.kind, inventory.applied.key
    if isinstance(exc, errors.ConflictError):
        text = f"{kind} '{key}' was replaced just now: ask again"
        details = status.Details(name=inventory.key.name, group=status.GROUP, kind=RESOURCE)
        return status.StatusError(409, "Conflict", text, details)
    return status.unavailable(f"{kind} '{key}' cannot be annotated: {exc}")
