"""What is shown of one object of an inventory. Pure.

An inventory may list objects that were never applied: a manifest can ask to be left out, and its
name is listed nevertheless. So details are shown only if the labels of an object prove that the
applier owns it. Outside the applier's namespace, not even its existence is shown otherwise.
"""

from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from apiserver.inventories import drift
from apiserver.inventories.appliers import Applied
from apiserver.inventories.drift import Drift, Observed
from toolkit.apply.health import Health, Status
from toolkit.apply.projection import older
from toolkit.objects import Json, ObjectRef

REMOTE: Final = "on another cluster (spec.kubeConfig)"
UNREAD: Final = "not read yet"


class Flag(IntFlag):
    """The properties that the totals count."""

    OBSERVED = 1
    READY = 2
    DRIFTED = 4
    MISSING = 8
    FOREIGN = 16
    FAILED = 32
    UNREAD = 64


FINE: Final = Flag.OBSERVED | Flag.READY


@dataclass(slots=True, kw_only=True)
class Tracked:
    """The state of one object in inventories.

    ``completed`` tells that it deleted itself when it was done. ``exists`` is the result of a read
    without a watch; None if it is unknown. ``looked`` tells that there was a read.
    """

    ref: ObjectRef
    seen: Observed | None = None
    drift: Drift | None = None
    completed: bool = False
    exists: bool | None = None
    looked: bool = False

    def look(self, *, exists: bool | None) -> None:
        """Handle the result of a read without a watch; None if it failed."""
        self.exists, self.looked = exists, True

    def take(self, new: Observed | None, *, gap: bool = False) -> None:
        """Handle the next state; ``gap`` tells that states before it may be lost.

        A state that is older than a read is ignored; the watch may deliver it later.
        """
        old = self.seen
        if new is not None and old is not None and _before(new, old):
            return
        self.seen, self.exists, self.looked = new, None, False
        if new is None:
            done = old is not None and old.live.health.status is not Status.IN_PROGRESS
            self.completed = old is not None and old.vanishing and done
        elif self.drift is None or old is None:
            # Changes while the object was not observed are unknown.
            self.drift, self.completed = drift.first(new), False
        else:
            self.drift = drift.follow(self.drift, new, old, gap=gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The shown state of one object; ``reason`` is why it is not observed."""

    flags: Flag
    health: Health
    drift: Drift = drift.NONE
    reason: str = ""
    owner: str = ""

    @property
    def fine(self) -> bool:
        """Tell whether the object has no problem."""
        return self.flags == FINE


def row(applied: Applied, tracked: Tracked, reason: str) -> Row:
    """Return the state to show; ``reason`` is why objects of the kind are not observed."""
    # 1. What cannot be seen.
    if applied.remote or reason:
        return _unobserved(REMOTE if applied.remote else reason)
    seen = tracked.seen
    # 2. Another applier's object. In another namespace it is shown like a missing one.
    if seen is not None and seen.live.owner != applied.key:
        owner = seen.live.owner
        if owner is not None and owner.namespace == applied.key.namespace:
            return _foreign(str(owner))
        return _absent(applied, tracked, known=False)
    # 3. What is not there.
    if seen is None:
        return _absent(applied, tracked, known=tracked.drift is not None)
    # 4. The applier's own.
    return _present(seen, tracked.drift or drift.NONE)


def looked_for(applied: Applied, tracked: Tracked) -> bool:
    """Tell whether it is worth a request, and harmless, to see whether the object exists."""
    unknown = tracked.seen is None and tracked.drift is None and not tracked.looked
    ours = tracked.ref.namespace == applied.key.namespace
    return unknown and ours and not (applied.remote or applied.busy)


def _present(seen: Observed, known: Drift) -> Row:
    found = drift.NONE if seen.disabled or seen.yielded else known
    changed = found.state == "Changed"
    flags = _PRESENT[changed].get(seen.live.health.status, Flag.OBSERVED)
    return Row(flags=flags, health=seen.live.health, drift=found)


_INTACT: Final = {Status.CURRENT: FINE, Status.FAILED: Flag.OBSERVED | Flag.FAILED}
_CHANGED: Final = {status: _INTACT.get(status, Flag.OBSERVED) | Flag.DRIFTED for status in Status}
_PRESENT: Final = (_INTACT, _CHANGED)
"""What counts of an object that is there, by its status: made once, for an event a moment."""


def _absent(applied: Applied, tracked: Tracked, *, known: bool) -> Row:
    if tracked.completed:
        return Row(flags=FINE, health=Health(Status.CURRENT, "it was done and has deleted itself"))
    if applied.busy:
        return Row(
            flags=Flag.OBSERVED, health=Health(Status.IN_PROGRESS, "not there, or not there yet")
        )
    if tracked.ref.gvk.group_kind == ("batch", "Job") and not known:
        return _unobserved("not there: a Job may delete itself when it is done")
    if known or tracked.exists is False:
        return Row(
            flags=Flag.OBSERVED | Flag.DRIFTED | Flag.MISSING,
            health=Health(Status.NOT_FOUND, "it was deleted, or lost the labels of its owner"),
            drift=drift.GONE,
        )
    return _unobserved(_unseen(applied, tracked))


def _unseen(applied: Applied, tracked: Tracked) -> str:
    """Say why an object without the labels of its owner is not observed."""
    if tracked.exists:
        return "it was not applied: it lacks the labels of its owner"
    if looked_for(applied, tracked):
        return UNREAD
    return "nothing there has the labels of its owner: deleted, or never applied"


def _foreign(owner: str) -> Row:
    return Row(
        flags=Flag.OBSERVED | Flag.FOREIGN,
        health=Health(Status.UNKNOWN, f"its labels name {owner} as its owner"),
        owner=owner,
    )


def _unobserved(reason: str) -> Row:
    flags = Flag.UNREAD if reason == UNREAD else Flag(0)
    return Row(flags=flags, health=Health(Status.UNKNOWN, reason), reason=reason)


def document(applied: Applied, tracked: Tracked, shown: Row) -> Json:
    """Return the row as it is served."""
    own = shown.flags & Flag.OBSERVED and not shown.owner
    ref, seen = tracked.ref, tracked.seen if own else None
    found: Json = {
        "apiVersion": ref.gvk.api_version,
        "kind": ref.gvk.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "revision": applied.revision,
        "appliedAt": seen.applied if seen else "",
        "createdAt": seen.created if seen else "",
        "observed": bool(shown.flags & Flag.OBSERVED),
        "ready": bool(shown.flags & Flag.READY),
        "health": shown.health.status.value,
        "message": shown.health.message,
        "drift": shown.drift.state,
        "changedBy": list(shown.drift.managers),
        "reconcileDisabled": seen.disabled if seen else False,
        "owner": shown.owner,
    }
    return {name: value for name, value in found.items() if value not in ("", [])}


def _before(new: Observed, old: Observed) -> bool:
    same = new.live.uid == old.live.uid
    return same and older(new.live.resource_version, old.live.resource_version)
