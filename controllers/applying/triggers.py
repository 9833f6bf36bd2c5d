"""Who wakes an applier: sources, dependencies, ConfigMaps and Secrets, grants that it needs.

An index maps each of these to the appliers of one kind that use it, kept from informer events, so
one change costs what it concerns and not a scan of everything.
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
    """What one applier uses beside its dependencies; it reads the ``sources``.

    Another namespace has to grant what is read there.
    """

    configs: tuple[ObjectRef, ...] = ()
    sources: tuple[ObjectRef, ...] = ()


class Triggers(Generic[T]):
    """The informer handlers of the controller of one kind.

    ``uses`` tells what an object uses beside its dependencies.
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
        """Index what it uses, and wake its dependents (``dependency``)."""
        used = self._used(change.new) if change.new else []
        self._index.put(change.key, used)
        self._guests.put(
            change.key, [_namespace(ref) for ref in used if ref.namespace != change.key.namespace]
        )
        self.dependency(self._kind)(change)

    def dependency(self, gvk: GroupVersionKind) -> Callable[[Change[Any]], None]:
        """Return the handler for one kind: what became ready at something new wakes dependents."""

        def handle(change: Change[Any]) -> None:
            before = change.old and dependencies.progress(change.old)
            if change.new and dependencies.progress(change.new) != before:
                self._wake(ObjectRef(gvk, change.key.namespace, change.key.name), "dependency")

        return handle

    def dependencies(self, others: Later[Dependent]) -> None:
        """Have objects of another kind wake who depends on them, once there is such a dependent."""
        self._others[others.gvk] = others
        others.subscribe(self.dependency(others.gvk))

    def source(self, gvk: GroupVersionKind) -> Callable[[Change[Any]], None]:
        """Return the handler for one source kind: a new artifact wakes who builds from it."""
        return waking.by_artifact(gvk, self._enqueue, self._index)

    def config(self, gvk: GroupVersionKind) -> Callable[[Change[Json]], None]:
        """Return the handler for labelled ConfigMaps or Secrets."""

        def handle(change: Change[Json]) -> None:
            self._wake(ObjectRef(gvk, change.key.namespace, change.key.name), "config")

        return handle

    def grant(self, namespace: str, changed: frozenset[Permission]) -> None:
        """Wake what a change of a grant concerns, and what applied a child that needed it."""
        grants.wake(namespace, changed, self._enqueue, self._index, self._refusals.index)

    def policy(self, namespace: str) -> None:
        """Wake who may use other sources, or act as another account, than before.

        That is who lives in the namespace or refers into it; everybody, if it is empty.
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
