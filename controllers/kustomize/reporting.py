"""What a Kustomization tells: messages, events and history, in Flux's words.

The texts are matched by users' alerts and by the ``flux`` CLI (kustomize-controller
``kustomization_controller.go``); they change only with Flux's.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from controllers.kustomize import history
from controllers.kustomize.clusters import LOST, Cluster
from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from crds.meta import format_duration
from toolkit import inventory
from toolkit.apply.changes import Change
from toolkit.apply.prune import Pruned
from toolkit.kube.reconciliation import Reconciliation
from toolkit.objects import Json, ObjectKey, ObjectRef

Pass = Reconciliation[Kustomization]

PRUNED: Final = "Pruned"
CONTESTED: Final = "Contested"
OTHER_APPLIER: Final = "OtherApplier"
_SHOWN: Final = 10
_MAX_MESSAGE: Final = 2000


def progress_message(obj: Kustomization, sources: Sources) -> str:
    """Return the one message that a pass shows while it is under way.

    It is the same before the apply and while health is awaited, so it costs one status patch.
    """
    waits = obj.spec.wait or obj.spec.health_checks
    doing = "Running health checks" if waits else "Detecting drift"
    timeout = format_duration(obj.spec.timeout_seconds)
    return f"{doing} for revision {sources.revision} with a timeout of {timeout}"


def finished_message(obj: Kustomization, *, seconds: float) -> str:
    """Return the text of the event of a pass that ended well."""
    took, interval = format_duration(seconds), format_duration(obj.spec.interval_seconds)
    return f"Reconciliation finished in {took}, next run in {interval}"


def list_inventory(rec: Pass, refs: Sequence[ObjectRef]) -> None:
    """List what may be applied; as in Flux, there is no list before the first object."""
    if refs or rec.obj.status.inventory:
        rec.status({"inventory": {"entries": inventory.encode(refs)}})


def report_changes(rec: Pass, cluster: Cluster, lines: Sequence[str]) -> None:
    """Emit one event that lists what was changed, with the reason where it was drift."""
    rivals = cluster.rivals.pop(rec.key, {})
    if not lines:
        return
    told = [f"corrected {ref}: {correction(ref, why, lines)}" for ref, why in rivals.items()]
    rec.event("info", "Progressing", "\n".join([*lines, *told]))


def correction(ref: ObjectRef, why: str, lines: Sequence[str]) -> str:
    """Return why an object was corrected: only what was deleted had to be created."""
    if why != LOST:
        return why
    created = str(Change(ref=ref, action="created")) in lines
    return "it was deleted" if created else "it had lost the labels of its owner"


def report_claims(rec: Pass, claims: Mapping[ObjectRef, ObjectKey]) -> None:
    """Say in a condition, and once in an event, which objects others have applied since."""
    if not claims:
        rec.unmark(CONTESTED)
        return
    shown = [f"{ref} by Kustomization {who}" for ref, who in sorted(claims.items())]
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    message = (
        f"applied since by others: {', '.join([*shown[:_SHOWN], *more])};"
        " remove each object from all but one of them"
    )[:_MAX_MESSAGE]
    told = any(c.type == CONTESTED and c.message == message for c in rec.obj.status.conditions)
    if not told:
        rec.event("error", OTHER_APPLIER, message)
    rec.mark(CONTESTED, "True", OTHER_APPLIER, message)


def report_held(rec: Pass, pruned: Pruned) -> None:
    """Say in a condition what was pruned and is still there; it is no failure."""
    if not pruned.held:
        rec.unmark(PRUNED)
        return
    shown = [f"{ref} ({', '.join(names)})" if names else str(ref) for ref, names in pruned.held]
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    message = f"waiting for finalizers of {', '.join([*shown[:_SHOWN], *more])}"
    rec.mark(PRUNED, "False", "WaitingForFinalizers", message[:_MAX_MESSAGE])


def record_history(
    rec: Pass, sources: Sources, *, digest: str, reason: str, started: float
) -> None:
    """Put the outcome of this pass into ``status.history``; ``started`` is monotonic."""
    metadata = {"revision": sources.revision}
    if sources.origin_revision:
        metadata["originRevision"] = sources.origin_revision
    entries = history.upsert(
        rec.obj.status.history,
        digest=digest,
        reason=reason,
        duration=format_duration(time.monotonic() - started),
        now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        metadata=metadata,
    )
    rec.status({"history": entries})


def build_digest(objects: Sequence[Json]) -> str:
    """Return the digest of a build, which a history entry stands for."""
    encoder = msgspec.json.Encoder(order="sorted")
    hasher = hashlib.sha256()
    for obj in objects:
        hasher.update(encoder.encode(obj))
    return f"sha256:{hasher.hexdigest()}"
