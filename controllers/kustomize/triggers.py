"""Who wakes a Kustomization: sources, dependencies, ConfigMaps and Secrets, grants that it needs.

An index maps each of these to the Kustomizations that use it, kept from informer events, so one
change costs what it concerns and not a scan of everything.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from controllers import grants
from controllers.grants import Refusals
from controllers.index import Index
from controllers.kustomize import dependencies, inputs
from controllers.kustomize.sources import SourceReader, SourceView
from controllers.waking import Enqueue
from crds.kustomize import Kustomization
from crds.meta import Artifact
from toolkit.errors import StalledError
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json, ObjectRef
from toolkit.policy.grants import Permission

_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


class Triggers:
    """The informer handlers of the Kustomization controller."""

    def __init__(
        self,
        kind: GroupVersionKind,
        reader: SourceReader,
        enqueue: Enqueue,
        refusals: Refusals,
    ) -> None:
        self._kind = kind
        self._reader = reader
        self._enqueue = enqueue
        self._refusals = refusals
        self._index = Index()
        self._guests = Index()

    def kustomization(self, change: Change[Kustomization]) -> None:
        """Index what it uses; when it became ready at something new, wake its dependents."""
        used = self._used(change.new) if change.new else []
        self._index.put(change.key, used)
        self._guests.put(
            change.key, [_namespace(ref) for ref in used if ref.namespace != change.key.namespace]
        )
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

    def _used(self, obj: Kustomization) -> list[ObjectRef]:
        own = ObjectRef(self._kind, obj.metadata.namespace, obj.metadata.name)
        used = list(inputs.references(obj))
        used += [ObjectRef(self._kind, key.namespace, key.name) for key in dependencies.keys(obj)]
        reading = [ObjectRef(self._kind, key.namespace, key.name) for key in dependencies.read(obj)]
        with contextlib.suppress(StalledError):  # an unserved kind is reported by the reconcile
            sources = [ref for _, ref in self._reader.references(obj)]
            used, reading = [*used, *sources], [*reading, *sources]
        return [*used, *grants.needed(own, reading)]


def _namespace(ref: ObjectRef) -> ObjectRef:
    return ObjectRef(_NAMESPACE, "", ref.namespace)


def _content(artifact: Artifact) -> tuple[str, str]:
    return artifact.revision, artifact.digest


def _progress(obj: Kustomization) -> tuple[object, ...]:
    """Return what dependents wait for; ``readyExpr`` may also look at labels and annotations."""
    meta, status = obj.metadata, obj.status
    ready = next((c.status for c in status.conditions if c.type == "Ready"), "Unknown")
    seen = (ready, status.observed_generation, status.last_applied_revision)
    return (*seen, meta.generation, meta.labels, meta.annotations)
