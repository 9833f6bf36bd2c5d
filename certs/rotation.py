"""When to make which certificate: a pure state machine. Clients always trust the one in use.

::

    nothing ──► authority + leaf                                  (first start, or all expired)
    two thirds of the authority's life, or asked for ──► + next   (trusted, signs nothing yet)
    all trust next, and the overlap is over ──► next signs a new leaf; the old one is trusted
    the overlap is over again ──► the old authority is forgotten
    two thirds of the leaf's life, or other hosts ──► a new leaf by the same authority

One step at a time: the replica that writes a step first has made it, the others take it over. The
clock and what is trusted are passed in; nothing here does IO.
"""

import dataclasses
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from certs import authority
from certs.authority import Pair

_SOON: Final = dt.timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long things live, and how long an authority is trusted before and after it signs."""

    authority: dt.timedelta = dt.timedelta(days=365)
    leaf: dt.timedelta = dt.timedelta(days=90)
    overlap: dt.timedelta = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the replicas share. ``turned`` is the last request for a rotation that was answered."""

    authority: Pair
    leaf: Pair
    next: Pair | None = None
    next_since: dt.datetime | None = None
    old: bytes = b""
    old_since: dt.datetime | None = None
    turned: str = ""

    @property
    def bundle(self) -> bytes:
        """Return all authorities that clients must trust."""
        following = self.next.certificate if self.next else b""
        return authority.joined(self.authority.certificate, following, self.old)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a step depends on besides the state.

    ``trusted`` tells whether every client trusts the next authority by now, ``asked`` is the newest
    request for a rotation (any text that differs from the one before).
    """

    now: dt.datetime
    hosts: tuple[str, ...]
    trusted: bool = False
    asked: str = ""


def step(state: State | None, situation: Situation, terms: Terms, *, name: str) -> State | None:
    """Return the state after one step, or None if nothing is due."""
    now = situation.now
    if state is None or (state.next is None and _expired(state, now)):
        return _fresh(situation, terms, name)
    # 1. The next authority signs only when everyone who asks us is sure to trust it.
    trusted = situation.trusted and _overlapped(state.next_since, now, terms)
    if state.next and (trusted or _expired(state, now)):
        return _promoted(state, state.next, situation, terms)
    # 2. The leaf is renewed by the authority that is trusted anyway.
    leaf = authority.facts(state.leaf.certificate)
    wanted = set(situation.hosts)
    if leaf.used_up(now) or not wanted <= leaf.hosts or not _signed(state):
        # A replica of another version may want other hosts: give both what they need.
        hosts = situation.hosts if leaf.used_up(now) else sorted(wanted | leaf.hosts)
        return dataclasses.replace(state, leaf=_leaf(state.authority, hosts, now, terms))
    # 3. A new authority is announced before it is needed.
    if state.next is None and (_used_up(state, now) or _asked(state, situation)):
        return dataclasses.replace(
            state,
            next=authority.new_authority(name, now=now, lifetime=terms.authority),
            next_since=now,
            turned=situation.asked or state.turned,
        )
    # 4. The old one is forgotten when every replica has long served the new leaf.
    if state.old and _overlapped(state.old_since, now, terms):
        return dataclasses.replace(state, old=b"", old_since=None)
    return None


def due(state: State, terms: Terms, *, now: dt.datetime) -> dt.timedelta:
    """Return in how long the next step may be due."""
    return max(min(moment - now for moment in _moments(state, terms)), _SOON)


def _moments(state: State, terms: Terms) -> Iterator[dt.datetime]:
    certificates = [state.leaf] if state.next else [state.leaf, state.authority]
    for pair in certificates:
        found = authority.facts(pair.certificate)
        yield found.begins + (found.ends - found.begins) * 2 / 3
    for since in (state.next_since, state.old_since):
        if since:
            yield since + terms.overlap


def _fresh(situation: Situation, terms: Terms, name: str) -> State:
    now = situation.now
    first = authority.new_authority(name, now=now, lifetime=terms.authority)
    return State(
        authority=first,
        leaf=_leaf(first, situation.hosts, now, terms),
        turned=situation.asked,
    )


def _promoted(state: State, following: Pair, situation: Situation, terms: Terms) -> State:
    return dataclasses.replace(
        state,
        authority=following,
        leaf=_leaf(following, situation.hosts, situation.now, terms),
        next=None,
        next_since=None,
        old=state.authority.certificate,
        old_since=situation.now,
    )


def _overlapped(since: dt.datetime | None, now: dt.datetime, terms: Terms) -> bool:
    """Tell whether the overlap is over; a time that got lost does not hold anything up."""
    return since is None or now >= since + terms.overlap


def _signed(state: State) -> bool:
    return authority.vouches(state.authority.certificate, state.leaf.certificate)


def _expired(state: State, now: dt.datetime) -> bool:
    return authority.facts(state.authority.certificate).ends <= now


def _used_up(state: State, now: dt.datetime) -> bool:
    return authority.facts(state.authority.certificate).used_up(now)


def _asked(state: State, situation: Situation) -> bool:
    return situation.asked not in {"", state.turned}


def _leaf(signer: Pair, hosts: Sequence[str], now: dt.datetime, terms: Terms) -> Pair:
    return authority.new_leaf(signer, hosts, now=now, lifetime=terms.leaf)
