"""Whether an applied object was changed, as seen by a process that did not apply it. Pure.

The managedFields entry of the applier is its memory. The API server changes it as follows (pinned
by ``tests/contract/apply/test_stamps.py``):

- Other managers can only make it smaller: a manager that changes or removes a field takes the field
  from the entry. The timestamp stays. So a smaller entry with the same timestamp is drift.
- An apply that changes a value gets a new timestamp. One that changes only ownership keeps the
  timestamp: the entry gains fields that had the wanted value already, or loses fields that others
  own, too.

So a new timestamp, or a larger entry, is an apply, and nothing else ends drift. Timestamps have
whole seconds. The applier does not write two contents of one object within a second
(``toolkit.apply.pace``), so a smaller entry is never an apply with the timestamp of the one before.

Changes that were not watched cannot be known: those before the first look, or in a ``gap`` of the
watch. If another manager has written since the apply, the answer is that there may be drift, and by
which manager; a dry-run can tell (``diff``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from toolkit.apply.projection import Live

State = Literal["", "Changed", "Missing", "Possible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A live object: ``Live``, and facts that distinguish an apply from an edit.

    - ``applied`` is the time of the applier's entry, ``owned`` the number of its fields, ``sole`` a
      digest of the fields without another owner.
    - ``later`` are the managers that have written since then, or in the same second.
    - ``vanishing`` objects delete themselves when they are done.
    - ``disabled`` objects are marked to be ignored, ``yielded`` ones to be created only.
    """

    live: Live
    created: str
    applied: str
    owned: int
    sole: str
    later: tuple[str, ...]
    vanishing: bool = False
    disabled: bool = False
    yielded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The state of an object since its apply, and the managers that changed it."""

    state: State = ""
    managers: tuple[str, ...] = ()


NONE: Final = Drift()
GONE: Final = Drift(state="Missing")


def first(seen: Observed) -> Drift:
    """Judge an object as it is found."""
    if not seen.live.entry:
        return Drift(state="Changed", managers=_names(w.manager for w in seen.live.writers))
    return _possible(seen.later)


def follow(drift: Drift, seen: Observed, old: Observed, *, gap: bool = False) -> Drift:
    """Return the drift of the next state of an object that had ``drift`` in the state ``old``.

    Without a ``gap``, a single write is between the two states.
    """
    if seen.live.uid != old.live.uid:
        return first(seen)
    told = seen.live.changed_by(old.live)
    if _applied(seen, old):
        # The apply has corrected all earlier drift.
        return _possible(name for name in told if gap and name in seen.later)
    if seen.live.entry == old.live.entry:
        return drift
    if _released(seen, old) and drift.state != "Changed":
        # The applier released the field, or a co-owner changed it in this second.
        return _possible(writer.manager for writer in seen.live.writers)
    known = drift.managers if drift.state == "Changed" else ()
    return Drift(state="Changed", managers=_names((*known, *told)))


def _applied(seen: Observed, old: Observed) -> bool:
    """Tell whether the applier has written: only it can renew its entry's time, or add fields."""
    if not seen.live.entry:
        return False
    grown = seen.live.entry != old.live.entry and seen.owned >= old.owned
    return grown or seen.applied != old.applied


def _released(seen: Observed, old: Observed) -> bool:
    """Tell whether the entry has lost only fields that others own as before."""
    same = seen.sole == old.sole and seen.live.writers == old.live.writers
    return same and bool(seen.live.entry)


def _possible(managers: Iterable[str]) -> Drift:
    names = _names(managers)
    return Drift(state="Possible", managers=names) if names else NONE


def _names(managers: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(managers)))
