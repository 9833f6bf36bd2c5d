"""The namespaces that an applier never deletes, and the condition that says so.

A commit can contain the Namespace in which its own applier lives, by accident or because another
name was transformed into this one. When the next commit drops it, everything in the namespace would
be deleted: the applier, its sources, and objects that come from no repository. So an applier may
apply such a Namespace, but never deletes it, and does not take it over from another applier.

A cluster that ``spec.kubeConfig`` names has other namespaces with these names, so there nothing is
kept.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from controllers.applying.applier import Applier
from toolkit.kube.reconciliation import Reconciliation
from toolkit.objects import ObjectRef

Pass: TypeAlias = Reconciliation[Any]

KEPT: Final = "NamespaceKept"
NOT_DELETED: Final = "NotDeleted"
NOT_TAKEN_OVER: Final = "NotTakenOver"
_SHARED: Final = "flux-system"


def kept(obj: Applier, installed: str) -> frozenset[str]:
    """Return the namespaces that an applier never deletes.

    These are its own, ``flux-system``, where fleets keep their sources, and that of Penstock.
    """
    if obj.spec.kube_config is not None:
        return frozenset()
    return frozenset({obj.metadata.namespace, _SHARED, installed} - {""})


def report(rec: Pass, undeleted: Sequence[ObjectRef], foreign: Iterable[ObjectRef] = ()) -> None:
    """Set the condition NamespaceKept, and send an event if its message is new.

    ``undeleted`` are Namespaces that would have been deleted, ``foreign`` those that are left as
    they are because they belong to another applier.
    """
    told = [_not_deleted(ref) for ref in undeleted]
    told += [
        f"{ref} is left as it is, because its labels name another applier: remove it from this one,"
        " or remove the labels if that applier is gone"
        for ref in foreign
    ]
    if not told:
        rec.unmark(KEPT)
        return
    message, reason = "; ".join(told), NOT_DELETED if undeleted else NOT_TAKEN_OVER
    if not any(c.type == KEPT and c.message == message for c in rec.obj.status.conditions):
        rec.event("error", reason, message)
    rec.mark(KEPT, "True", reason, message)


def tell(rec: Pass, undeleted: Sequence[ObjectRef]) -> None:
    """Send an event about Namespaces that stay when their applier is deleted."""
    if undeleted:
        rec.event("info", NOT_DELETED, "; ".join(map(_not_deleted, undeleted)))


def _not_deleted(ref: ObjectRef) -> str:
    return (
        f"{ref} is not deleted, because this object, Flux's objects or Penstock live in it: delete"
        " it by hand if it is not needed"
    )
