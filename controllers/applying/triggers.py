"""Events that enqueue an applier: its sources, dependencies, ConfigMaps, Secrets and grants.

An index maps each of these objects to the appliers of one kind that use it. Informer events keep
the index up to date, so the cost of a change depends only on the number of its users.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from controllers import grants, waking
from controllers.applying import dependencies
from controllers.applying.dependencies import Dependent
from controllers.grants import Refusals
from controllers.index import Index
from controllers.waking import Enqueue
from toolkit.kube.informer import Change
from toolkit.kube.later import Later
from toolkit.objects import GroupVersionKind, Json, ObjectRef
from toolkit.policy.grants import Permission

T = TypeVar("T", bound=Dependent)

_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The objects that one applier uses, except its dependencies.

    The applier reads its ``sources``, so a source in another namespace needs a grant there.
    """

    configs: tuple[ObjectRef, ...] = ()
    sources: tuple[ObjectRef, ...] = ()


class Triggers(Generic[T]):
    """The informer handlers of the controller of one kind.

    ``uses`` returns the objects that an applier uses, except its dependencies.
    """

    def __init__(
        self,
        kind: GroupVersionKind,
        enqueue: Enqueue,
        refusals: Refusals,
        *,
        uses: Callable[[T], Used],
    ) -> None:
        self._kind = kind
        self._enqueue = enqueue
        self._refusals = refusals
        self._uses = uses
        self._index = Index()
        self._guests = Index()
        self._others: dict[GroupVersionKind, Later[Dependent]] = {}

    def applier(self, change: Change[T]) -> None:
        """Handle an event of an applier: update the index, and wake dependents (``dependency``)."""
        used = self._used(change.new) if change.new else []
        self._index.put(change.key, used)
        self._guests.put(
            change.key, [_namespace(ref) for ref in used if ref.namespace != change.key.namespace]
        )
        self.dependency(self._kind)(change)

    def dependency(self, gvk: GroupVersionKind) -> Callable[[Change[Any]], None]:
        """Return the handler for one kind: an object whose readiness changes wakes dependents."""

        def handle(change: Change[Any]) -> None:
            before = change.old and dependencies.progress(change.old)
            if change.new and dependencies.progress(change.new) != before:
                self._wake(ObjectRef(gvk, change.key.namespace, change.key.name), "dependency")

        return handle

    def dependencies(self, others: Later[Dependent]) -> None:
        """Have objects of another kind wake their dependents, as soon as there is a dependent."""
        self._others[others.gvk] = others
        others.subscribe(self.dependency(others.gvk))

    def source(self, gvk: GroupVersionKind) -> Callable[[Change[Any]], None]:
        """Return the handler for one kind of source: a new artifact wakes users of the source."""
        return waking.by_source(gvk, self._enqueue, self._index)

    def config(self, gvk: GroupVersionKind) -> Callable[[Change[Json]], None]:
        """Return the handler for labelled ConfigMaps or Secrets."""

        def handle(change: Change[Json]) -> None:
            self._wake(ObjectRef(gvk, change.key.namespace, change.key.name), "config")

        return handle

    def grant(self, namespace: str, changed: frozenset[Permission]) -> None:
        """Wake appliers that a change of a grant concerns, and appliers of refused children."""
        grants.wake(namespace, changed, self._enqueue, self._index, self._refusals.index)

    def policy(self, namespace: str) -> None:
        """Wake the appliers whose allowed sources or accounts may have changed.

        These are the appliers in the namespace and those that refer to objects in it. An empty
        namespace means all appliers.
        """
        for key in self._index.everybody():
            if namespace in {"", key.namespace}:
                self._enqueue(key, "policy")
        for key in self._guests.users(ObjectRef(_NAMESPACE, "", namespace)):
            self._enqueue(key, "policy")

    def _wake(self, ref: ObjectRef, trigger: str) -> None:
        for key in self._index.users(ref):
            self._enqueue(key, trigger)

    def _used(self, obj: T) -> list[ObjectRef]:
        own = ObjectRef(self._kind, obj.metadata.namespace, obj.metadata.name)
        used, waits = self._uses(obj), tuple(dependencies.references(obj))
        reading = [ref for dependency, ref in waits if dependency.ready_expr]
        for _, ref in waits:
            if others := self._others.get(ref.gvk):
                others.need()
        return [
            *used.configs,
            *(ref for _, ref in waits),
            *used.sources,
            *grants.needed(own, [*reading, *used.sources]),
        ]


def _namespace(ref: ObjectRef) -> ObjectRef:
    return ObjectRef(_NAMESPACE, "", ref.namespace)
