"""What this process knows of each release, so that an unchanged pass costs nothing.

Losing it is harmless: the next pass reads Helm's storage, and goes on with a wait that the
conditions tell of. It holds names, digests and states, never manifests or values: no secret stays
in memory.
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
"""What only a pass that has looked answers: it is told once, whatever becomes of the pass."""


@dataclass(slots=True, kw_only=True)
class Pending:
    """An action that has applied its objects, whose health is awaited.

    ``done`` are the actions of the passes that belong together, ``target`` is the release that a
    rollback goes back to. ``attempted`` tells what was desired: another desire ends the wait.
    ``seconds`` are left of the timeout, ``going`` are objects that an uninstallation deleted.
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
    """What is known of one release.

    ``fingerprint`` is of the inputs of the last pass that ended as desired. ``seen`` is the newest
    record, valid as long as ``read``. ``compared`` is the generation of the spec by which the
    cluster was last compared with it, 0 if it was not: then the watches know what to expect.
    ``unproven`` tells that the last look found what they cannot, so every interval looks again.
    ``rendered`` are the objects of the newest record, None where they are not known; ``changes``
    tells in short what the last action changed of those before.
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
    """What is known of every release that this process reconciled."""

    def __init__(self) -> None:
        self._kept: dict[ObjectKey, Kept] = {}
        self._asked: dict[ObjectKey, frozenset[str]] = {}
        self._going: dict[ObjectKey, tuple[ObjectRef, ...]] = {}

    def asked(self, key: ObjectKey, triggers: frozenset[str]) -> frozenset[str]:
        """Return the triggers of a pass, with those that no pass has answered yet."""
        asked = self._asked.pop(key, frozenset()) | triggers
        if lasting := asked & _LASTING:
            self._asked[key] = lasting
        return asked

    def answered(self, key: ObjectKey) -> None:
        """Note that a pass has answered all that was asked."""
        self._asked.pop(key, None)

    def of(self, key: ObjectKey) -> Kept:
        """Return what is known of a release."""
        return self._kept.setdefault(key, Kept())

    def leave(self, key: ObjectKey, refs: tuple[ObjectRef, ...]) -> None:
        """Note what an uninstallation is deleting, until it is gone."""
        self._going[key] = refs

    def going(self, key: ObjectKey) -> tuple[ObjectRef, ...]:
        """Return what an uninstallation was deleting."""
        return self._going.get(key, ())

    def forget(self, key: ObjectKey) -> None:
        """Drop what is known: the object is gone, or its release is."""
        self._kept.pop(key, None)
        self._asked.pop(key, None)
        self._going.pop(key, None)


def stands(kept: Kept, fingerprint: str, triggers: Collection[str]) -> bool:
    """Tell whether nothing has to be looked at: same inputs, and nobody told of a change."""
    return kept.pending is None and kept.fingerprint == fingerprint and not _LASTING & set(triggers)


def fingerprint(obj: HelmRelease, *, digest: str, versions: Sequence[str], cluster: int) -> str:
    """Return the digest of everything that determines what would be released, and where."""
    meta = obj.metadata
    parts = (meta.uid, str(meta.generation), digest, *versions, str(cluster))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
