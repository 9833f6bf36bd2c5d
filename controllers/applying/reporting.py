"""Report the applied objects: inventory, changes, and objects that other appliers claim."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from controllers.applying.clusters import LOST, Cluster
from toolkit import inventory
from toolkit.apply.changes import Change
from toolkit.apply.prune import Pruned
from toolkit.kube.reconciliation import Reconciliation
from toolkit.objects import ObjectKey, ObjectRef

Pass: TypeAlias = Reconciliation[Any]

PRUNED: Final = "Pruned"
CONTESTED: Final = "Contested"
OTHER_APPLIER: Final = "OtherApplier"
_SHOWN: Final = 10
_NAMED: Final = 5
"""Number of objects that one line of a summary names."""
_MAX_MESSAGE: Final = 2000


def list_inventory(rec: Pass, refs: Sequence[ObjectRef]) -> None:
    """Set ``status.inventory``; as in Flux, it stays unset before the first object is applied."""
    if refs or rec.obj.status.inventory:
        rec.status({"inventory": {"entries": inventory.encode(refs)}})


def report_changes(rec: Pass, cluster: Cluster, lines: Sequence[str]) -> None:
    """Send one event with all changed objects; for corrected drift it states the cause."""
    rivals = cluster.rivals.pop(rec.key, {})
    if not lines:
        return
    told = [f"corrected {ref}: {correction(ref, why, lines)}" for ref, why in rivals.items()]
    metadata = {"changes": in_short(lines)}
    rec.event("info", "Progressing", "\n".join([*lines, *told]), metadata)


def in_short(lines: Sequence[str]) -> str:
    """Return a summary of changes in at most two lines.

    The first line has the created and configured objects, the second line the deleted ones. Each
    begins with the number of objects and names the first five.
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        name, _, action = line.rpartition(" ")
        found.setdefault(action, []).append(name)
    told = [_short({each: found[each] for each in ("created", "configured") if each in found})]
    told.append(_short({"deleted": found["deleted"]} if "deleted" in found else {}))
    return "\n".join(each for each in told if each)


def _short(found: Mapping[str, Sequence[str]]) -> str:
    names = [name for each in found.values() for name in each]
    counts = ", ".join(f"{len(each)} {action}" for action, each in found.items())
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{counts}: {', '.join(names[:_NAMED])}{more}" if names else ""


def correction(ref: ObjectRef, why: str, lines: Sequence[str]) -> str:
    """Return why an object was corrected.

    If it had to be created, it had been deleted. Otherwise it had lost its owner labels.
    """
    if why != LOST:
        return why
    created = str(Change(ref=ref, action="created")) in lines
    return "it was deleted" if created else "it had lost the labels of its owner"


def report_claims(rec: Pass, claims: Mapping[ObjectRef, ObjectKey]) -> None:
    """Set the condition Contested to the objects that other appliers have applied since.

    An event is sent once per message.
    """
    if not claims:
        rec.unmark(CONTESTED)
        return
    shown = [f"{ref} by {rec.ref.gvk.kind} {who}" for ref, who in sorted(claims.items())]
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    message = (
        f"other appliers have applied these objects since: {', '.join([*shown[:_SHOWN], *more])};"
        " remove each object from all appliers but one"
    )[:_MAX_MESSAGE]
    told = any(c.type == CONTESTED and c.message == message for c in rec.obj.status.conditions)
    if not told:
        rec.event("error", OTHER_APPLIER, message)
    rec.mark(CONTESTED, "True", OTHER_APPLIER, message)


def report_held(rec: Pass, pruned: Pruned) -> None:
    """Set the condition Pruned to the objects that finalizers keep; this is not a failure."""
    if not pruned.held:
        rec.unmark(PRUNED)
        return
    shown = [f"{ref} ({', '.join(names)})" if names else str(ref) for ref, names in pruned.held]
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    message = f"waiting for finalizers of {', '.join([*shown[:_SHOWN], *more])}"
    rec.mark(PRUNED, "False", "WaitingForFinalizers", message[:_MAX_MESSAGE])
