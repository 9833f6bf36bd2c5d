"""Whether somebody has changed an applied object, told by one who did not apply it. Pure.

The managedFields entry of the applier is its memory: the server stamps it whenever the applier
changes what it owns, and leaves the stamp alone when somebody else takes a field from it
(structured-merge-diff). So a digest that changes under an unchanged stamp is drift; a new stamp is
a new apply, and the old digest again is a correction. An entry that is gone is drift at first
sight.

Stamps have whole seconds. Two applies within one look like drift, and so a change that leaves no
other manager behind counts only once the stamp has been there for longer than that.

What happened before the first look cannot be known. Where another manager has written later than
the applier, the answer is that it may be drift, and by whom; a dry-run can tell (``diff``).
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from toolkit.apply.projection import Live

State = Literal["", "Changed", "Missing", "Possible"]

_STAMP_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A live object: what ``Live`` holds, and what tells time.

    ``applied`` is the stamp of the applier's entry. ``later`` are those who have written after it.
    ``vanishing`` objects delete themselves when they are done; ``disabled`` ones are to be left
    alone.
    """

    live: Live
    created: str
    applied: str
    later: tuple[str, ...]
    vanishing: bool = False
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What has become of an object since it was applied, and whose doing that was."""

    state: State = ""
    managers: tuple[str, ...] = ()


NONE: Final = Drift()
GONE: Final = Drift(state="Missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the last apply left, as far as it was seen; ``since`` is on our monotonic clock."""

    uid: str
    entry: str
    applied: str
    since: float
    drift: Drift = NONE


def first(seen: Observed, *, now: float) -> Memory:
    """Begin with an object as it is found."""
    if not seen.live.entry:
        drift = Drift(state="Changed", managers=_others(seen))
    elif seen.later:
        drift = Drift(state="Possible", managers=seen.later)
    else:
        drift = NONE
    return Memory(
        uid=seen.live.uid, entry=seen.live.entry, applied=seen.applied, since=now, drift=drift
    )


def follow(memory: Memory, seen: Observed, old: Observed | None, *, now: float) -> Memory:
    """Take in the next state of an object; ``old`` is the one before, if that was seen."""
    live = seen.live
    if live.uid != memory.uid or not memory.entry:
        return first(seen, now=now)
    if not live.entry:
        return _drifted(memory, seen, old)
    if seen.applied != memory.applied:
        # Applied anew: whatever was wrong has been put right.
        return Memory(uid=live.uid, entry=live.entry, applied=seen.applied, since=now)
    if live.entry == memory.entry:
        return _same(memory, seen)
    told = live.changed_by(old.live if old else None)
    if not told and now - memory.since < _STAMP_SECONDS:
        return replace(memory, entry=live.entry, drift=NONE)
    return _drifted(memory, seen, old)


def _same(memory: Memory, seen: Observed) -> Memory:
    """Keep the memory of an untouched object; what was only possible may be over."""
    if memory.drift.state == "Possible":
        state = Drift(state="Possible", managers=seen.later) if seen.later else NONE
        return replace(memory, drift=state)
    return replace(memory, drift=NONE) if memory.drift.state else memory


def _drifted(memory: Memory, seen: Observed, old: Observed | None) -> Memory:
    told = seen.live.changed_by(old.live if old else None)
    known = memory.drift.managers if memory.drift.state == "Changed" else ()
    return replace(memory, drift=Drift(state="Changed", managers=tuple(sorted({*known, *told}))))


def _others(seen: Observed) -> tuple[str, ...]:
    return tuple(sorted({writer.manager for writer in seen.live.writers}))
