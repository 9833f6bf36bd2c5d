"""What an applier never deletes, and the conditions that say so.

- The namespace in which it lives. A commit can contain this Namespace by accident, or because
  another name was transformed into this one. When the next commit drops it, everything in the
  namespace would be deleted: the applier, its sources, and objects that come from no repository. So
  an applier may apply such a Namespace, but never deletes it, and does not take it over from
  another applier. A cluster that ``spec.kubeConfig`` names has other namespaces with these names,
  so there no namespace is kept.
- The definition of one of our kinds while objects of the kind exist, on any cluster. They would all
  be deleted, also those of other users, and with them what they have applied.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from controllers.applying.applier import Applier
from crds import KINDS
from toolkit.apply.retention import DEFINITION, Retention
from toolkit.kube.reconciliation import Reconciliation
from toolkit.objects import ObjectRef

Pass: TypeAlias = Reconciliation[Any]

KEPT: Final = "NamespaceKept"
DEFINITION_KEPT: Final = "DefinitionKept"
NOT_DELETED: Final = "NotDeleted"
NOT_TAKEN_OVER: Final = "NotTakenOver"
GROUPS: Final = frozenset(kind.group for kind in KINDS)
"""The API groups of Flux's kinds and of Penstock's."""
_SHARED: Final = "flux-system"


def kept(obj: Applier, installed: str) -> Retention:
    """Return what an applier never deletes.

    Its namespaces are its own, ``flux-system``, where fleets keep their sources, and that of
    Penstock.
    """
    here = obj.spec.kube_config is None
    namespaces = {obj.metadata.namespace, _SHARED, installed} - {""} if here else ()
    return Retention(namespaces=frozenset(namespaces), groups=GROUPS)


def report(rec: Pass, undeleted: Sequence[ObjectRef], foreign: Iterable[ObjectRef] = ()) -> None:
    """Set the conditions, and send an event for each whose message is new.

    ``undeleted`` are objects that would have been deleted, ``foreign`` Namespaces that are left as
    they are because they belong to another applier.
    """
    definitions = [ref for ref in undeleted if _is_definition(ref)]
    namespaces = [ref for ref in undeleted if not _is_definition(ref)]
    _set(rec, DEFINITION_KEPT, NOT_DELETED, map(_not_deleted, definitions))
    told = [_not_deleted(ref) for ref in namespaces]
    told += [
        f"{ref} is left as it is, because its labels name another applier: remove it from this one,"
        " or remove the labels if that applier is gone"
        for ref in foreign
    ]
    _set(rec, KEPT, NOT_DELETED if namespaces else NOT_TAKEN_OVER, told)


def tell(rec: Pass, undeleted: Sequence[ObjectRef]) -> None:
    """Send an event about objects that stay when their applier is deleted."""
    if undeleted:
        rec.event("info", NOT_DELETED, "; ".join(map(_not_deleted, undeleted)))


def _set(rec: Pass, condition: str, reason: str, told: Iterable[str]) -> None:
    message = "; ".join(told)
    if not message:
        rec.unmark(condition)
        return
    if not any(c.type == condition and c.message == message for c in rec.obj.status.conditions):
        rec.event("error", reason, message)
    rec.mark(condition, "True", reason, message)


def _is_definition(ref: ObjectRef) -> bool:
    return ref.gvk.group_kind == DEFINITION.group_kind


def _not_deleted(ref: ObjectRef) -> str:
    if _is_definition(ref):
        return (
            f"{ref} is not deleted, because all objects of its kind would be deleted with it:"
            " delete these objects first, or delete the definition by hand"
        )
    return (
        f"{ref} is not deleted, because this object, Flux's objects or Penstock live in it: delete"
        " it by hand if it is not needed"
    )
