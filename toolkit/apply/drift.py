"""Which applied objects differ from what we applied.

Decides from what a watch shows, event by event: an object is *intact*, *drifted* or *gone*, or the
watch is still behind our own write. Drift is reported once until its owner has applied again, and
later and later if another writer insists. ``sweep`` looks again for an object that does not show up
after its apply, because it may have been deleted before the watch began. A Job that deletes itself
when it is done counts as present.

No IO and no tasks: the clock is passed in, events and sweeps come from ``live``.
"""

import time
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

from toolkit.apply.changes import Known
from toolkit.apply.corrections import Corrections
from toolkit.apply.health import Status
from toolkit.apply.order import GroupKind, Identity
from toolkit.apply.projection import Live, older
from toolkit.multimap import MultiMap
from toolkit.objects import ObjectKey, ObjectRef

_CONFIRM_SECONDS: Final = 5.0

Verdict = Literal["intact", "drifted", "stale"]


def verdict(expected: Known, live: Live) -> Verdict:
    """Compare a live object with the state after our last apply.

    ``stale`` means that this is the object before that apply, whose watch event is still to come.
    """
    if older(live.resource_version, expected.resource_version):
        return "stale"
    same = expected.yielded or live.entry == expected.entry_digest
    return "intact" if same and live.uid == expected.uid else "drifted"


class OnDrift(Protocol):
    """Told that an object is no longer as its owner applied it. Must not block."""

    def __call__(
        self, owner: ObjectKey, ref: ObjectRef, *, managers: tuple[str, ...], deleted: bool
    ) -> None:
        """Handle drift; ``managers`` are those that changed the object, if the watch shows them."""


OnClaim = Callable[[ObjectKey], None]
"""Told an owner whose ``claims`` have changed. Must not block."""


class View(Protocol):
    """The current state of the watches."""

    def find(self, ref: ObjectRef) -> Live | None:
        """Return the object as last seen."""

    def current(self, ref: ObjectRef) -> bool:
        """Tell whether the watch of its kind works and has seen everything once."""


class DriftWatch:
    """Compares the expected with the live objects, for all owners on one cluster."""

    def __init__(
        self,
        view: View,
        on_drift: OnDrift,
        *,
        on_claim: OnClaim = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._on_drift = on_drift
        self._on_claim = on_claim
        self._monotonic = monotonic
        self._corrections: Corrections[tuple[ObjectKey, Identity]] = Corrections(
            monotonic=monotonic
        )
        self._ledgers: dict[ObjectKey, _Ledger] = {}
        self._owners: MultiMap[Identity, ObjectKey] = MultiMap()
        self._restless: set[ObjectKey] = set()

    def hold(self, owner: ObjectKey, applying: Container[Identity]) -> None:
        """Report no drift of this owner while it applies, as it may cause the changes itself.

        ``applying`` may grow meanwhile, and its objects may lack the namespace they are applied to.
        """
        ledger = self._ledger(owner)
        ledger.held, ledger.applying = True, applying

    def release(self, owner: ObjectKey) -> None:
        """End a hold, and compare what was seen meanwhile with the earlier expectations."""
        ledger, now = self._ledger(owner), self._monotonic()
        ledger.held, ledger.applying = False, frozenset()
        for identity, expected in ledger.expected.items():
            live = self._view.find(expected.ref)
            if live is None and identity in ledger.vanished:
                continue
            if live is None or verdict(expected, live) == "stale":
                ledger.unconfirmed.setdefault(identity, now)
                self._restless.add(owner)
            else:
                self._judge(owner, expected, live, None)

    def expect(
        self, owner: ObjectKey, known: Mapping[Identity, Known], *, partial: bool = False
    ) -> None:
        """Store the state after an apply, end the hold, and compare what was seen meanwhile.

        ``partial`` adds to the earlier expectations, because the apply failed half-way. Drift that
        it did not correct stays reported; the next attempt of the owner corrects it.
        """
        ledger = self._ledger(owner)
        for identity in () if partial else ledger.expected.keys() - known.keys():
            self._disown(owner, identity)
        if partial:
            ledger.settle({**ledger.expected, **known}, answered=known.keys())
        else:
            ledger.settle(dict(known), answered=None)
        for identity in known:
            self._owners.add(identity, owner)
        self.release(owner)

    def forget(self, owner: ObjectKey) -> None:
        """Expect nothing more: the owner is gone."""
        for identity in self._ledger(owner).expected:
            self._disown(owner, identity)
        self._restless.discard(owner)
        del self._ledgers[owner]

    def seen(self, ref: ObjectRef, live: Live | None, old: Live | None) -> None:
        """Take in an event; ``live`` is None when the object was deleted or lost our labels."""
        for owner in tuple(self._owners.of(ref.identity)):
            ledger = self._ledger(owner)
            if not ledger.held:
                self._judge(owner, ledger.expected[ref.identity], live, old)

    def recheck(self, kind: GroupKind) -> None:
        """Check all objects of a kind again: its watch restarts and may have missed events."""
        now = self._monotonic()
        for identity in self._owners.keys():  # noqa: SIM118 - no mapping
            for owner in self._owners.of(identity) if identity[:2] == kind else ():
                ledger = self._ledger(owner)
                if identity not in ledger.vanished:
                    ledger.unconfirmed.setdefault(identity, now)
                    self._restless.add(owner)

    def sweep(self) -> list[tuple[ObjectKey, ObjectRef]]:
        """Report drift whose pause is over, and objects that never showed up.

        Returns the objects that turned out to have deleted themselves.
        """
        now = self._monotonic()
        vanished = []
        for owner in tuple(self._restless):
            ledger = self._ledger(owner)
            for drift in [one for one in ledger.pending.values() if one.due <= now]:
                self._report(owner, drift)
            if not ledger.held:
                vanished += [(owner, ref) for ref in self._confirm(owner, ledger, now)]
            if not (ledger.pending or ledger.unconfirmed):
                self._restless.discard(owner)
        return vanished

    def known(self, owner: ObjectKey) -> dict[Identity, Known]:
        """Return the applied objects that the watch shows as unchanged, in their versions."""
        ledger = self._ledger(owner)
        found = {}
        for identity, expected in ledger.expected.items():
            live = self._view.find(expected.ref)
            if live is None and identity in ledger.vanished:
                found[identity] = expected
            if live is None or identity in ledger.reported:
                continue
            if verdict(expected, live) == "intact" and self._view.current(expected.ref):
                found[identity] = replace(expected, resource_version=live.resource_version)
        return found

    def untouched(self, owner: ObjectKey) -> frozenset[Identity]:
        """Return the objects that the watch proves to be unchanged since the owner's apply.

        Another apply with our field manager may set other values for the same fields. It renews the
        time of our entry, and if it is by another owner, the labels. An object without an entry of
        ours proves nothing.
        """
        ledger, proven = self._ledger(owner), set()
        for identity, known in self.known(owner).items():
            live = self._view.find(known.ref)
            stamped = live is None or live.stamp == ledger.expected[identity].stamp
            if known.entry_digest and stamped and identity not in ledger.claims:
                proven.add(identity)
        return frozenset(proven)

    def proves(self, owner: ObjectKey) -> bool:
        """Tell whether all that the owner applied is untouched."""
        return self.untouched(owner) == self._ledger(owner).expected.keys()

    def expected(self, owner: ObjectKey, ref: ObjectRef) -> Known | None:
        """Return the state of the object after the owner's last apply."""
        return self._ledger(owner).expected.get(ref.identity)

    def concerns(self, owner: ObjectKey, ref: ObjectRef) -> bool:
        """Tell whether the owner has applied the object, or may be applying it now."""
        ledger, (group, kind, _, name) = self._ledger(owner), ref.identity
        names = ref.identity, (group, kind, "", name)
        return ref.identity in ledger.expected or any(each in ledger.applying for each in names)

    def owners(self, ref: ObjectRef) -> frozenset[ObjectKey]:
        """Return the owners with an expectation for the object."""
        return frozenset(self._owners.of(ref.identity))

    def unconfirmed(self, owner: ObjectKey, ref: ObjectRef) -> bool:
        """Tell whether the watch has yet to show the object since its apply."""
        return ref.identity in self._ledger(owner).unconfirmed

    def claims(self, owner: ObjectKey) -> dict[ObjectRef, ObjectKey]:
        """Return the objects that another owner has applied since, with the same fields."""
        ledger = self._ledger(owner)
        return {ledger.expected[identity].ref: who for identity, who in ledger.claims.items()}

    def rivals(self, owner: ObjectKey) -> dict[ObjectRef, tuple[str, ...]]:
        """Return repeatedly corrected objects, with the managers that changed them last."""
        return {
            drift.ref: drift.managers
            for identity, drift in self._ledger(owner).rivals.items()
            if self._corrections.count((owner, identity)) > 1
        }

    def _judge(
        self, owner: ObjectKey, expected: Known, live: Live | None, old: Live | None
    ) -> None:
        ledger, identity = self._ledger(owner), expected.ref.identity
        if live is None:
            # The deletion of a predecessor, which our apply recreated, is no drift.
            if old is None or old.uid != expected.uid:
                return
            if expected.vanishing and old.health.status is not Status.IN_PROGRESS:
                ledger.vanished[identity] = None
                ledger.unconfirmed.pop(identity, None)
            else:
                self._drifted(owner, expected.ref, managers=(), deleted=True)
            return
        match verdict(expected, live):
            case "intact":
                ledger.unconfirmed.pop(identity, None)
                ledger.pending.pop(identity, None)
                self._claimed(owner, identity, live.owner)
            case "drifted":
                managers = live.changed_by(old)
                self._drifted(owner, expected.ref, managers=managers, deleted=False)
            case "stale":
                pass

    def _claimed(self, owner: ObjectKey, identity: Identity, by: ObjectKey | None) -> None:
        """Record the last applier of an object: our entry does not show it, but the labels do."""
        claims = self._ledger(owner).claims
        before = claims.pop(identity, None)
        if by is not None and by != owner:
            claims[identity] = by
        if claims.get(identity) != before:
            self._on_claim(owner)

    def _drifted(
        self, owner: ObjectKey, ref: ObjectRef, *, managers: tuple[str, ...], deleted: bool
    ) -> None:
        ledger, identity, now = self._ledger(owner), ref.identity, self._monotonic()
        ledger.unconfirmed.pop(identity, None)
        if identity in ledger.reported:
            return
        earlier = ledger.pending.get(identity)
        due = earlier.due if earlier else now + self._corrections.delay((owner, identity))
        names = tuple(sorted({*managers, *(earlier.managers if earlier else ())}))
        ledger.pending[identity] = drift = _Drift(due, ref, names, deleted)
        if due <= now:
            self._report(owner, drift)
        else:
            self._restless.add(owner)

    def _report(self, owner: ObjectKey, drift: "_Drift") -> None:
        ledger, identity = self._ledger(owner), drift.ref.identity
        ledger.pending.pop(identity, None)
        ledger.reported[identity] = None
        ledger.rivals[identity] = drift
        self._on_drift(owner, drift.ref, managers=drift.managers, deleted=drift.deleted)

    def _confirm(self, owner: ObjectKey, ledger: "_Ledger", now: float) -> list[ObjectRef]:
        vanished = []
        for identity, since in tuple(ledger.unconfirmed.items()):
            expected = ledger.expected[identity]
            overdue = now - since >= _CONFIRM_SECONDS and self._view.current(expected.ref)
            if not overdue or self._view.find(expected.ref) is not None:
                continue
            if expected.vanishing:
                ledger.unconfirmed.pop(identity)
                ledger.vanished[identity] = None
                vanished.append(expected.ref)
            else:
                self._drifted(owner, expected.ref, managers=(), deleted=True)
        return vanished

    def _ledger(self, owner: ObjectKey) -> "_Ledger":
        found = self._ledgers.get(owner)
        if found is None:
            found = self._ledgers[owner] = _Ledger()
        return found

    def _disown(self, owner: ObjectKey, identity: Identity) -> None:
        self._corrections.forget((owner, identity))
        self._owners.discard(identity, owner)


@dataclass(frozen=True, slots=True)
class _Drift:
    due: float
    ref: ObjectRef
    managers: tuple[str, ...]
    deleted: bool


@dataclass(slots=True)
class _Ledger:
    """The state of one owner: its expectations, and the drift that is open or reported.

    Most of it is empty: an empty set takes three times as much memory as an empty dict.
    """

    expected: dict[Identity, Known] = field(default_factory=dict)
    held: bool = False
    applying: Container[Identity] = frozenset()
    pending: dict[Identity, _Drift] = field(default_factory=dict)
    reported: dict[Identity, None] = field(default_factory=dict)
    unconfirmed: dict[Identity, float] = field(default_factory=dict)
    rivals: dict[Identity, _Drift] = field(default_factory=dict)
    vanished: dict[Identity, None] = field(default_factory=dict)
    claims: dict[Identity, ObjectKey] = field(default_factory=dict)

    def settle(
        self, expected: dict[Identity, Known], *, answered: Collection[Identity] | None
    ) -> None:
        """Replace the expectations after an apply; ``answered`` is the drift that it corrected."""
        earlier, self.expected = self.expected, expected
        self.vanished = {
            identity: None
            for identity in self.vanished.keys() & expected.keys()
            if earlier[identity].uid == expected[identity].uid
        }
        open_ = set() if answered is None else expected.keys() - answered
        for memory in (self.pending, self.unconfirmed, self.reported):
            for identity in memory.keys() - open_:
                del memory[identity]
        self.rivals = {key: drift for key, drift in self.rivals.items() if key in expected}
        self.claims = {key: who for key, who in self.claims.items() if key in expected}
