"""A cache per release, so that a reconciliation without changes costs nothing.

Losing the cache is harmless: the next reconciliation reads Helm's storage, and continues a wait
that the conditions show. The cache holds names, digests and states, but no manifests or values, so
no secret stays in memory.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from controllers.applying.waiting import Wait
from controllers.helm.deciding.decisions import Action
from controllers.helm.deciding.differences import Rendered
from controllers.helm.deciding.states import Seen
from crds.helm import HelmRelease
from crds.helm_status import Snapshot
from toolkit.objects import ObjectKey, ObjectRef

_LASTING: Final = frozenset({"drift", "requested", "storage"})
"""Triggers that stay until a reconciliation succeeds, because they are sent only once."""


@dataclass(slots=True, kw_only=True)
class Pending:
    """An action that has applied its objects, and waits until they are healthy.

    - ``attempted`` identifies the desired state; if it changes, the wait ends.
    - ``seconds`` is the rest of the timeout; for an uninstallation, the monotonic time of its end.
    - ``done`` are the actions so far, across the reconciliations of the wait.
    - ``target`` is the release that a rollback restores.
    - ``going`` are the objects that an uninstallation deleted.
    """

    action: Action
    attempted: tuple[str, ...]
    seconds: float
    done: tuple[Action, ...] = ()
    target: Snapshot | None = None
    wait: Wait | None = None
    going: tuple[ObjectRef, ...] = ()
    log: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Kept:
    """The cache of one release.

    - ``fingerprint`` identifies the inputs of the last successful reconciliation.
    - ``seen`` is the newest record; it is valid only while ``read`` is true.
    - ``compared`` is the generation of the spec with which the cluster was last compared, so that
      the watches know what to expect; 0 if it was not.
    - ``unproven`` tells that the last comparison left objects whose changes no watch can show, so
      each interval compares again.
    - ``rendered`` are the objects of the newest record; None if they are unknown.
    - ``changes`` is a short text with the changes by the last action.
    """

    fingerprint: str = ""
    read: bool = False
    seen: Seen | None = None
    compared: int = 0
    unproven: bool = False
    pending: Pending | None = None
    rendered: Rendered | None = None
    changes: str = ""


class Memory:
    """The caches of all releases that this process has reconciled."""

    def __init__(self) -> None:
        self._kept: dict[ObjectKey, Kept] = {}
        self._asked: dict[ObjectKey, frozenset[str]] = {}
        self._going: dict[ObjectKey, tuple[ObjectRef, ...]] = {}

    def asked(self, key: ObjectKey, triggers: frozenset[str]) -> frozenset[str]:
        """Return the triggers of a reconciliation, and earlier ones that are still open."""
        asked = self._asked.pop(key, frozenset()) | triggers
        if lasting := asked & _LASTING:
            self._asked[key] = lasting
        return asked

    def answered(self, key: ObjectKey) -> None:
        """Drop all open triggers, after a successful reconciliation."""
        self._asked.pop(key, None)

    def of(self, key: ObjectKey) -> Kept:
        """Return the cache of a release; create it if there is none."""
        return self._kept.setdefault(key, Kept())

    def leave(self, key: ObjectKey, refs: tuple[ObjectRef, ...]) -> None:
        """Store the objects that an uninstallation is deleting."""
        self._going[key] = refs

    def going(self, key: ObjectKey) -> tuple[ObjectRef, ...]:
        """Return the objects that an uninstallation was deleting."""
        return self._going.get(key, ())

    def forget(self, key: ObjectKey) -> None:
        """Drop the cache of a HelmRelease that was deleted, or whose release was uninstalled."""
        self._kept.pop(key, None)
        self._asked.pop(key, None)
        self._going.pop(key, None)


def stands(kept: Kept, fingerprint: str, triggers: Collection[str]) -> bool:
    """Tell whether there is nothing to do: the inputs are the same, and no trigger is open."""
    return kept.pending is None and kept.fingerprint == fingerprint and not _LASTING & set(triggers)


def fingerprint(obj: HelmRelease, *, digest: str, versions: Sequence[str], cluster: int) -> str:
    """Return the SHA-256 digest (hex) of all inputs that determine the release and its target."""
    meta = obj.metadata
    parts = (meta.uid, str(meta.generation), digest, *versions, str(cluster))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
