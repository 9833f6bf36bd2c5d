"""A cache of the last apply, so that a reconciliation without changes costs nothing.

Losing the cache is harmless: the next reconciliation applies everything again, which changes
nothing in the cluster. The cache holds names and digests, but no manifests, so no secret stays in
memory.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from controllers.kustomize.inputs import Inputs
from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from toolkit import inventory
from toolkit.apply.order import Identity
from toolkit.objects import ObjectKey, ObjectRef
from toolkit.render.kustomize import UNKNOWN, Footprint

_LASTING: Final = frozenset({"drift", "requested", "gone"})
"""Triggers that stay until an apply is complete, because they are sent only once."""


@dataclass(slots=True, kw_only=True)
class Applied:
    """The last complete apply of one Kustomization.

    - ``fingerprint`` identifies its inputs; it is empty while another apply runs.
    - ``started`` is the monotonic time at which its reconciliation began.
    - ``awaited`` are the objects whose health counts; ``may_vanish`` of them delete themselves.
    - ``leaving`` are pruned objects that finalizers keep.
    - ``changed`` tells that the apply wrote an object; ``changes`` is a short text about it.
    - ``was_healthy`` is the condition Healthy from before the wait.
    - ``settled`` becomes true when the objects are healthy.
    - ``settings`` is the part of the fingerprint that does not depend on the sources.
    - ``footprint`` identifies the files of the sources that the build depends on.
    """

    fingerprint: str
    digest: str
    started: float
    inventory: tuple[ObjectRef, ...]
    awaited: tuple[ObjectRef, ...] = ()
    may_vanish: frozenset[Identity] = frozenset()
    leaving: tuple[ObjectRef, ...] = ()
    changed: bool = False
    changes: str = ""
    was_healthy: bool | None = None
    settled: bool = False
    settings: str = ""
    footprint: Footprint = UNKNOWN

    def stands(self, fingerprint: str, triggers: Collection[str], *, watched: bool) -> bool:
        """Tell whether the apply is current: the inputs are the same, and no trigger asks for more.

        If not all kinds are ``watched``, or pruned objects are still ``leaving``, each interval
        applies again.
        """
        return self.fingerprint == fingerprint and not self._due(triggers, watched=watched)

    def depends(self, settings: str, triggers: Collection[str], *, watched: bool) -> bool:
        """Tell whether only a change of the files in ``footprint`` requires a new apply.

        This is false while pruned objects still exist, or while the health of objects is awaited.
        """
        return (
            bool(self.fingerprint and self.footprint)
            and self.settings == settings
            and self.settled
            and not self.leaving
            and not self._due(triggers, watched=watched)
        )

    def renew(self, fingerprint: str, *, started: float) -> None:
        """Use this apply for other sources, whose files are the same for the build."""
        self.fingerprint, self.started = fingerprint, started
        self.changed, self.changes, self.settled = False, "", False

    def _due(self, triggers: Collection[str], *, watched: bool) -> bool:
        due = set(_LASTING)
        if self.settled and (self.leaving or not watched):
            due.add("interval")
        return bool(due & set(triggers))


class Memory:
    """The last apply of every Kustomization that this process has reconciled."""

    def __init__(self) -> None:
        self._applied: dict[ObjectKey, Applied] = {}
        self._asked: dict[ObjectKey, frozenset[str]] = {}

    def asked(self, key: ObjectKey, triggers: frozenset[str]) -> frozenset[str]:
        """Return the triggers of a reconciliation, and earlier ones that are still open."""
        asked = self._asked.pop(key, frozenset()) | triggers
        if lasting := asked & _LASTING:
            self._asked[key] = lasting
        return asked

    def get(self, key: ObjectKey) -> Applied | None:
        """Return the last apply of ``key``, or None."""
        return self._applied.get(key)

    def inventory(self, obj: Kustomization) -> tuple[ObjectRef, ...]:
        """Return the objects that may exist: those in the status, and those of the last apply.

        Raises:
            StalledError: the status has an invalid inventory id.
        """
        status = obj.status.inventory
        listed = inventory.decode(msgspec.to_builtins(status.entries) if status else ())
        applied = self.get(ObjectKey(obj.metadata.namespace, obj.metadata.name))
        known = applied.inventory if applied else ()
        return tuple({ref.identity: ref for ref in (*listed, *known)}.values())

    def leaving(self, key: ObjectKey) -> tuple[ObjectRef, ...]:
        """Return the objects that the last apply pruned and that finalizers keep."""
        applied = self.get(key)
        return applied.leaving if applied else ()

    def put(self, key: ObjectKey, applied: Applied) -> None:
        """Store a complete apply, and drop all open triggers."""
        self._applied[key] = applied
        self._asked.pop(key, None)

    def invalidate(self, key: ObjectKey) -> None:
        """Invalidate the last apply, because a new one begins and may fail half-way.

        Its inventory stays, because its objects still exist.
        """
        if applied := self._applied.get(key):
            applied.fingerprint = ""

    def forget(self, key: ObjectKey) -> None:
        """Drop the cache of a deleted Kustomization."""
        self._applied.pop(key, None)
        self._asked.pop(key, None)


def settings(obj: Kustomization, inputs: Inputs, *, cluster: int) -> str:
    """Return the digest (SHA-256, hex) of all inputs of an apply except the sources.

    ``cluster`` is the number of the cluster, because a kubeconfig can change without the spec, and
    then even the same cluster has new watches.
    """
    meta = obj.metadata
    return _digest(meta.uid, str(meta.generation), *inputs.versions, str(cluster))


def fingerprint(settings: str, sources: Sources) -> str:
    """Return the digest (SHA-256, hex) of all inputs of an apply."""
    return _digest(settings, *sources.digests, sources.revision)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
