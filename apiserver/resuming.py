"""Where a watch with a resource version continues.

1. A version of this process: strictly after it, exactly.
2. A version of another replica, or of this one before a restart: the number alone does not tell
   which objects that process knew, because informers of several kinds lag each other. Every object
   that changed since this process passed that revision, or shortly before, is sent again in its
   present state: at least once, deletions too.
3. A version that is too old: 410, and the client lists.

Objects that are sent again have versions above the one of the client, so a client that compares
numbers does not take them for old ones. ADR 16 has the reasoning.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from operator import itemgetter
from typing import Final

from apiserver import position
from apiserver.item import Event, Item
from apiserver.view import View

MARGIN: Final = 10.0
"""Seconds: twice the time that an informer may lag behind the API server unnoticed."""
_MOST: Final = 1_000
"""Limit of events that are read for one watch; a client that missed more must list."""
_LARGEST: Final = 64 << 10
"""Limit in bytes of an object that is copied for one watch, whose client may be slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """The first events to send, made when they are read, and the position to continue at.

    ``since`` is the position of the oldest event that it holds.
    """

    events: Iterable[Event] = ()
    place: int
    since: int


def resume(view: View, version: int, *, namespace: str = "") -> Resumption:
    """Return how to continue after a version that is not in the future.

    Raises:
        StatusError: 410, the version is too old, or a list is cheaper.
    """
    history = view.history
    if view.clock.issued(version):
        start = max(version, view.birth)
        if start < history.floor:
            raise position.too_old(version, history.floor)
        place = history.after(start)
        return Resumption(place=place, since=place)
    stamp = view.surpass(version, namespace)
    passed = view.clock.passed(position.revision_of(version))
    if passed is None or passed - MARGIN < history.since:
        raise position.too_old(version, history.floor)
    place = history.at(passed - MARGIN)
    window = [
        event
        for event in history.read(place, history.end) or ()
        if namespace in {"", event.key.namespace}
    ]
    if len(window) > _MOST or any(map(_large, window)):
        raise position.too_old(version, history.floor)
    return Resumption(events=_again(view, window, stamp), place=history.end, since=place)


def unchanged(view: View, version: int, namespace: str, start: tuple[str, str]) -> bool:
    """Tell whether another replica's state at a version is certainly ours, from a name on."""
    passed = view.clock.passed(position.revision_of(version))
    if passed is None or passed - MARGIN < view.history.since:
        return False
    window = view.history.read(view.history.at(passed - MARGIN), view.history.end) or ()
    return not any(
        (event.key.namespace, event.key.name) >= start and namespace in {"", event.key.namespace}
        for event in window
    )


_Told = tuple[int, Event, tuple[Item, ...], Item | None]
"""An event to be made: its version, one of its object, and the states before and after."""


def _large(event: Event) -> bool:
    states = event.olds if event.new is None else (*event.olds, event.new)
    return any(state.size > _LARGEST for state in states)


def _again(view: View, window: Sequence[Event], stamp: int) -> Iterator[Event]:
    """Return one event, or two, for each object that changed, in the order of their versions."""
    changes: dict[tuple[str, str], list[Event]] = {}
    for event in window:
        changes.setdefault((event.key.namespace, event.key.name), []).append(event)
    found = [told for each in changes.values() for told in _merged(view, each, stamp)]
    found.sort(key=itemgetter(0))
    return starmap(_event, found)


def _merged(view: View, events: Sequence[Event], stamp: int) -> Iterable[_Told]:
    """Return the events for a client that may have seen any of an object's states.

    The states are kept with the event: if one of them was selected and the current one is not, the
    client is told that the object is gone.
    """
    last = events[-1]
    states = [state for event in reversed(events) for state in event.olds]
    new = view.get(last.key)
    others = tuple(old for old in states if new is None or old.uid != new.uid)
    if others:
        gone = max(event.version for event in events if event.new is None)
        yield max(gone, stamp), last, others, None
    if new is not None:
        own = tuple(old for old in states if old.uid == new.uid)
        yield max(new.version, stamp), last, own, new


def _event(version: int, like: Event, olds: tuple[Item, ...], new: Item | None) -> Event:
    if new is not None and new.version != version:
        new = new.at(version)
    return Event(version=version, at=like.at, key=like.key, olds=olds, new=new)
