"""Who wakes a Kustomization: its sources, its dependencies, the ConfigMaps and Secrets it names.

An index maps each of these to the Kustomizations that use it, kept from informer events, so one
change costs what it concerns and not a scan of everything.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from controllers.kustomize import dependencies, inputs
from controllers.kustomize.sources import SourceReader, SourceView
from crds.kustomize import Kustomization
from crds.meta import Artifact
from toolkit.errors import StalledError
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

Enqueue = Callable[[ObjectKey, str], None]


class Index:
    """What each Kustomization uses, both ways."""

    def __init__(self) -> None:
        self._users: defaultdict[ObjectRef, set[ObjectKey]] = defaultdict(set)
        self._uses: dict[ObjectKey, frozenset[ObjectRef]] = {}

    def users(self, ref: ObjectRef) -> frozenset[ObjectKey]:
        """Return the Kustomizations that use the object."""
        return frozenset(self._users.get(ref, ()))

    def put(self, key: ObjectKey, used: Iterable[ObjectRef]) -> None:
        """Replace what ``key`` uses; nothing means: forget it."""
        new = frozenset(used)
        for gone in self._uses.get(key, frozenset()) - new:
            self._users[gone].discard(key)
            if not self._users[gone]:
                del self._users[gone]
        for ref in new:
            self._users[ref].add(key)
        if new:
            self._uses[key] = new
        else:
            self._uses.pop(key, None)


class Triggers:
    """The informer handlers of the Kustomization controller."""

    def __init__(
        self, kind: GroupVersionKind, reader: SourceReader, enqueue: Enqueue, index: Index
    ) -> None:
        self._kind = kind
        self._reader = reader
        self._enqueue = enqueue
        self._index = index

    def kustomization(self, change: Change[Kustomization]) -> None:
        """Index what it uses; when it became ready at something new, wake its dependents."""
        self._index.put(change.key, self._used(change.new) if change.new else ())
        if change.new and _progress(change.new) != (change.old and _progress(change.old)):
            self._wake(ObjectRef(self._kind, change.key.namespace, change.key.name), "dependency")

    def source(self, gvk: GroupVersionKind) -> Callable[[Change[SourceView]], None]:
        """Return the handler for one source kind: a new artifact wakes who builds from it."""

        def handle(change: Change[SourceView]) -> None:
            before = change.old.status.artifact if change.old else None
            after = change.new.status.artifact if change.new else None
            if after and _content(after) != (before and _content(before)):
                self._wake(ObjectRef(gvk, change.key.namespace, change.key.name), "source")

        return handle

    def config(self, gvk: GroupVersionKind) -> Callable[[Change[Json]], None]:
        """Return the handler for labelled ConfigMaps or Secrets."""

        def handle(change: Change[Json]) -> None:
            self._wake(ObjectRef(gvk, change.key.namespace, change.key.name), "config")

        return handle

    def _wake(self, ref: ObjectRef, trigger: str) -> None:
        for key in self._index.users(ref):
            self._enqueue(key, trigger)

    def _used(self, obj: Kustomization) -> list[ObjectRef]:
        used = list(inputs.references(obj))
        used += [ObjectRef(self._kind, key.namespace, key.name) for key in dependencies.keys(obj)]
        try:
            used += [ref for _, ref in self._reader.references(obj)]
        except StalledError:
            return used  # an unserved source kind is reported by the reconcile
        return used


def _content(artifact: Artifact) -> tuple[str, str]:
    return artifact.revision, artifact.digest


def _progress(obj: Kustomization) -> tuple[object, ...]:
    """Return what dependents wait for; ``readyExpr`` may also look at labels and annotations."""
    meta, status = obj.metadata, obj.status
    ready = next((c.status for c in status.conditions if c.type == "Ready"), "Unknown")
    seen = (ready, status.observed_generation, status.last_applied_revision)
    return (*seen, meta.generation, meta.labels, meta.annotations)
