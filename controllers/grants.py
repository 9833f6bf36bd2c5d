"""Cache ReferenceGrants, enqueue the objects that a change affects, and report missing grants.

An index maps each possible permission to the objects that need it, so the cost of a change depends
only on the number of these objects. ``Refusals`` holds the objects whose children the gate refused,
because no informer has a child that was never stored.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from controllers.index import Index
from controllers.waking import Enqueue
from crds import REFERENCE_GRANT
from crds.policy_referencegrant import EVERY, ReferenceGrant
from toolkit.kube import conditions
from toolkit.kube.informer import Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.reconciliation import Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef, ref_of
from toolkit.policy import references, remedies, unreadable
from toolkit.policy.grants import Grants, Permission
from toolkit.policy.references import HOLDERS, References

CONDITION: Final = "ReferencesGranted"
"""Condition of an object that refers to what no grant allows, where that is only warned of."""
REASON: Final = "GrantMissing"
_KIND: Final = GroupVersionKind(*REFERENCE_GRANT.gvk)
_HOLDING: Final = frozenset(kind for _, kind in HOLDERS)
_SHOWN: Final = 3

PERMISSIONS: Final = (
    # Which references of other namespaces are allowed.
    Rule(
        groups=(REFERENCE_GRANT.group,),
        resources=(REFERENCE_GRANT.plural,),
        verbs=("get", "list", "watch"),
    ),
)


def follow(manager: Manager, options: Options) -> Grants:
    """Return the grants, kept by an informer of the manager's."""
    informer: Informer[ReferenceGrant] = Informer(
        manager.client,
        _KIND,
        decode=msgspec.json.Decoder(ReferenceGrant).decode,
        stand_in=unreadable.grant,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    manager.add_informer(informer)
    return Grants(informer)


def needed(holder: ObjectRef, used: Iterable[ObjectRef]) -> Iterator[ObjectRef]:
    """Yield index keys for the grants that these references of ``holder`` need."""
    for target in used:
        if target.namespace == holder.namespace:
            continue
        group, kind = target.gvk.group_kind
        for namespace in (EVERY, holder.namespace):
            for name in ("", target.name):
                allowed = Permission(*holder.gvk.group_kind, namespace, group, kind, name)
                yield _stand_in(target.namespace, allowed)


def wake(namespace: str, changed: Iterable[Permission], enqueue: Enqueue, *indexes: Index) -> None:
    """Enqueue the objects that need a permission that was added or removed in a namespace."""
    for key in {
        key
        for permission in changed
        for index in indexes
        for key in index.users(_stand_in(namespace, permission))
    }:
        enqueue(key, "grant")


class Refusals:
    """The grants that objects need for the children that they apply.

    An applier calls ``awaits`` before it applies, so that a grant that is created meanwhile
    enqueues the object. After the attempt, ``refused`` keeps only the refused children.
    """

    def __init__(self) -> None:
        self.index = Index()

    def awaits(self, key: ObjectKey, children: Iterable[Json]) -> None:
        """Replace the children by whose grants an object is to be woken; none ends that."""
        self.index.put(key, [each for child in children for each in _needed_by(child)])

    def refused(self, key: ObjectKey, children: Iterable[Json], refs: Iterable[ObjectRef]) -> None:
        """Wait for the grants of those children that were refused."""
        names = {(ref.gvk.group_kind, ref.name) for ref in refs}
        found = ((ref_of(child), child) for child in children)
        self.awaits(key, [c for ref, c in found if (ref.gvk.group_kind, ref.name) in names])


def tell(rec: Reconciliation[Any], decision: References) -> None:
    """Set a condition, and an event when it changes, with the references that lack a grant.

    Raises:
        WaitingError: the grants are not read yet.
    """
    missing = () if decision.enforced else _missing(rec, decision)
    if not missing:
        rec.unmark(CONDITION)
        return
    shown = [f"{each.path}: {error}" for each, error in missing[:_SHOWN]]
    more = [f"and {len(missing) - _SHOWN} more"] if len(missing) > _SHOWN else []
    remedy = remedies.remedy(rec.ref, [each.target for each, _ in missing])
    message = conditions.shortened(
        f"{'; '.join([*shown, *more])}; it passes because of --cross-namespace-refs=warn; {remedy}"
    )
    if not any(c.type == CONDITION and c.message == message for c in rec.obj.status.conditions):
        rec.event("error", REASON, message)
    rec.mark(CONDITION, "False", REASON, message)


def _missing(
    rec: Reconciliation[Any], decision: References
) -> list[tuple[references.Reference, references.UngrantedError]]:
    obj = {"apiVersion": rec.obj.api_version, "kind": rec.obj.kind}
    found = references.references(
        obj | {"spec": msgspec.to_builtins(rec.obj.spec)}, rec.key.namespace
    )
    denied = decision.denials(rec.ref, found)
    # Blocked references are reported as a failure instead.
    return [(each, e) for each, e in denied if isinstance(e, references.UngrantedError)]


def _needed_by(child: Json) -> Iterator[ObjectRef]:
    if child.get("kind") not in _HOLDING:  # most of a set are of other kinds
        return
    holder = ref_of(child)
    found = references.references(child, holder.namespace)
    yield from needed(holder, (each.target for each in found if each.reads))


def _stand_in(namespace: str, allowed: Permission) -> ObjectRef:
    return ObjectRef(_KIND, namespace, "/".join(allowed))
