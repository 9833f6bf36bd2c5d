"""What this process knows of the last apply, so that an unchanged reconcile costs nothing.

Losing it is harmless: the next pass applies everything again, which changes nothing on the cluster.
It holds names and digests, never manifests: no secret stays in memory.
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
"""What a complete apply alone answers: it is told once, whatever becomes of the pass."""


@dataclass(slots=True, kw_only=True)
class Applied:
    """The last complete apply of one Kustomization.

    ``started`` is the monotonic time of its pass; ``awaited`` are the objects whose health counts,
    of which ``may_vanish`` delete themselves; ``leaving`` were pruned, and finalizers hold them;
    ``changed`` says that the apply wrote something, ``changes`` what in short; ``was_healthy`` is
    what the condition Healthy said before a wait began; ``settled`` turns true once health was
    confirmed. ``settings`` is the part of the fingerprint that is not of the sources, and
    ``footprint`` what the build depends on in those.
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
        """Tell whether nothing has to be applied: same inputs, no drift, nobody asked for it.

        Drift of what is not ``watched`` is found when the interval is over, and so is the end of
        what is leaving and cannot be watched.
        """
        return self.fingerprint == fingerprint and not self._due(triggers, watched=watched)

    def depends(self, settings: str, triggers: Collection[str], *, watched: bool) -> bool:
        """Tell whether something has to be applied only if the sources changed what was built.

        What was pruned and is still there, and health that is still awaited, take the long way.
        """
        return (
            bool(self.fingerprint and self.footprint)
            and self.settings == settings
            and self.settled
            and not self.leaving
            and not self._due(triggers, watched=watched)
        )

    def renew(self, fingerprint: str, *, started: float) -> None:
        """Let the apply stand for sources that hold the same for this build."""
        self.fingerprint, self.started = fingerprint, started
        self.changed, self.changes, self.settled = False, "", False

    def _due(self, triggers: Collection[str], *, watched: bool) -> bool:
        due = set(_LASTING)
        if self.settled and (self.leaving or not watched):
            due.add("interval")
        return bool(due & set(triggers))


class Memory:
    """The last apply of every Kustomization that this process reconciled."""

    def __init__(self) -> None:
        self._applied: dict[ObjectKey, Applied] = {}
        self._asked: dict[ObjectKey, frozenset[str]] = {}

    def asked(self, key: ObjectKey, triggers: frozenset[str]) -> frozenset[str]:
        """Return the triggers of a pass, with those that no complete apply has answered yet."""
        asked = self._asked.pop(key, frozenset()) | triggers
        if lasting := asked & _LASTING:
            self._asked[key] = lasting
        return asked

    def get(self, key: ObjectKey) -> Applied | None:
        """Return the last apply of ``key``."""
        return self._applied.get(key)

    def inventory(self, obj: Kustomization) -> tuple[ObjectRef, ...]:
        """Return what may be applied: what the status lists, and what we know beyond it, once each.

        Raises:
            StalledError: the status lists something that is not an inventory id.
        """
        status = obj.status.inventory
        listed = inventory.decode(msgspec.to_builtins(status.entries) if status else ())
        applied = self.get(ObjectKey(obj.metadata.namespace, obj.metadata.name))
        known = applied.inventory if applied else ()
        return tuple({ref.identity: ref for ref in (*listed, *known)}.values())

    def leaving(self, key: ObjectKey) -> tuple[ObjectRef, ...]:
        """Return what the last apply pruned and finalizers held."""
        applied = self.get(key)
        return applied.leaving if applied else ()

    def put(self, key: ObjectKey, applied: Applied) -> None:
        """Remember an apply, which answers all that had asked for it."""
        self._applied[key] = applied
        self._asked.pop(key, None)

    def doubt(self, key: ObjectKey) -> None:
        """Stop relying on the last apply, because another one begins and may break off.

        Its inventory stays known: what it wrote must not be forgotten.
        """
        if applied := self._applied.get(key):
            applied.fingerprint = ""

    def forget(self, key: ObjectKey) -> None:
        """Drop what is known: the object is gone."""
        self._applied.pop(key, None)
        self._asked.pop(key, None)


def settings(obj: Kustomization, inputs: Inputs, *, cluster: int) -> str:
    """Return the digest of what determines an apply beside the sources.

    A kubeconfig can change without the spec, and even the same cluster has other watches then.
    """
    meta = obj.metadata
    return _digest(meta.uid, str(meta.generation), *inputs.versions, str(cluster))


def fingerprint(settings: str, sources: Sources) -> str:
    """Return the digest of everything that determines what would be applied, and how, and where."""
    return _digest(settings, *sources.digests, sources.revision)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
