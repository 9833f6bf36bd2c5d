"""What a pass tells of the objects that it applied: inventory, changes, and who else wants them."""

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
"""Objects that one line of a difference names."""
_MAX_MESSAGE: Final = 2000


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
    metadata = {"changes": in_short(lines)}
    rec.event("info", "Progressing", "\n".join([*lines, *told]), metadata)


def in_short(lines: Sequence[str]) -> str:
    """Return the difference of the inventory in two lines at most: what is there, and what went.

    Each begins with how many objects that are; the first of them are named.
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
    shown = [f"{ref} by {rec.ref.gvk.kind} {who}" for ref, who in sorted(claims.items())]
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
    """Say in a condition what was pruned and is still there; it is not a failure."""
    if not pruned.held:
        rec.unmark(PRUNED)
        return
    shown = [f"{ref} ({', '.join(names)})" if names else str(ref) for ref, names in pruned.held]
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    message = f"waiting for finalizers of {', '.join([*shown[:_SHOWN], *more])}"
    rec.mark(PRUNED, "False", "WaitingForFinalizers", message[:_MAX_MESSAGE])
