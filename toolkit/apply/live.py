"""Report drift and health from watches, without polling.

Every applied kind is watched by the owner label. After an apply the caller says what it left
(``expect``). If an event shows that our managedFields entry has changed, or that the object is gone
or replaced, this is drift. It is reported at once, or after a pause if another writer insists
(``drift``). Fields of others do not change our entry and are not drift. Health changes are reported
for the waits.

One ``LiveSet`` serves one identity on one cluster. It holds projections, no objects, and writes
nothing. A kind that may not be watched is ``unwatched``: objects named by ``observe`` are then
polled, and the owner must check the others itself.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

import msgspec

from toolkit.apply import ownership
from toolkit.apply.changes import Known
from toolkit.apply.drift import DriftWatch, OnClaim, OnDrift
from toolkit.apply.health import NOT_FOUND, Health, Rule
from toolkit.apply.judging import Judging
from toolkit.apply.order import Identity
from toolkit.apply.projection import Live, Projector, judged, older, rule_for
from toolkit.apply.watches import Scope, Watches
from toolkit.expressions.evaluator import Evaluates
from toolkit.kube import client, errors
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 5.0
_decode: Final = msgspec.json.Decoder()


class OnHealth(Protocol):
    """Told that the health of an object may have changed. Must not block."""

    def __call__(self, owner: ObjectKey, ref: ObjectRef) -> None:
        """Look at ``LiveSet.health`` again if it matters."""


OnGone = Callable[[ObjectKey], None]
"""Told an owner of which an object that ``leave`` named is gone. Must not block."""


class LiveSet:
    """Live state of all that owners of one group apply with one identity."""

    def __init__(  # noqa: PLR0913 - the watched objects, and the callbacks
        self,
        api: client.Client,
        *,
        manager: str,
        evaluates: Evaluates,
        on_drift: OnDrift,
        on_health: OnHealth,
        on_gone: OnGone = lambda _: None,
        on_claim: OnClaim = lambda _: None,
        group: str = ownership.KUSTOMIZE_GROUP,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._manager = manager
        self._group = group
        self._on_health = on_health
        self._on_gone = on_gone
        self._monotonic = monotonic
        self._watches: Watches[Live] = Watches(self._open)
        self._drift = DriftWatch(self, on_drift, on_claim=on_claim, monotonic=monotonic)
        self._rules: dict[ObjectKey, tuple[Rule, ...]] = {}
        self._observed: dict[ObjectKey, dict[Identity, ObjectRef]] = {}
        self._observers: dict[Identity, set[ObjectKey]] = {}
        self._fetched: dict[tuple[ObjectKey, Identity], Live | None] = {}
        self._wanted: dict[tuple[ObjectKey, Identity], ObjectRef] = {}
        self._leaving: dict[ObjectKey, tuple[ObjectRef, ...]] = {}
        self._wake = asyncio.Event()
        self._judging: Judging[Live] = Judging(evaluates, self._tell_judged)
        self._polled = float("-inf")

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watches.run())
            group.create_task(self._sweep())
            group.create_task(self._fetch())
            group.create_task(self._judging.run())

    def ensure(self, owner: ObjectKey, kinds: Collection[GroupVersionKind]) -> None:
        """Watch exactly these kinds for this owner; the watches start in the background."""
        self._watches.use(owner, [Scope(gvk) for gvk in kinds], labelled=True)

    def unwatched(self, owner: ObjectKey) -> frozenset[GroupVersionKind]:
        """Return the kinds of this owner that the server will not let us watch."""
        return frozenset(
            watch.scope.gvk
            for watch in self._watches.used_by(owner)
            if watch.refused and watch.scope.namespace is None
        )

    async def wait_synced(self, owner: ObjectKey, *, timeout: float) -> bool:  # noqa: ASYNC109
        """Wait for the owner's watches, at most ``timeout`` seconds; return whether all synced.

        Watches that the server has refused are left out.
        """
        watches = tuple(self._watches.used_by(owner))
        waits = [watch.informer.wait_synced() for watch in watches if not watch.refused]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*waits)
        return all(watch.informer.synced for watch in watches)

    def set_rules(self, owner: ObjectKey, rules: tuple[Rule, ...]) -> None:
        """Judge the health of the owner's objects by these rules from now on."""
        self._rules[owner] = rules

    def observe(self, owner: ObjectKey, refs: Iterable[ObjectRef]) -> None:
        """Observe the health of these objects too; replaces the earlier ones of the owner.

        This is for health checks of objects of other appliers, and for kinds that cannot be
        watched.
        """
        wanted = {ref.identity: ref for ref in refs}
        for identity in self._observed.pop(owner, {}):
            self._observers[identity].discard(owner)
            if not self._observers[identity]:
                del self._observers[identity]
        for identity in wanted:
            self._observers.setdefault(identity, set()).add(owner)
        if wanted:
            self._observed[owner] = wanted
        scopes = [Scope(ref.gvk, ref.namespace) for ref in wanted.values()]
        self._watches.use(owner, scopes, labelled=False)

    def hold(self, owner: ObjectKey, applying: Container[Identity]) -> None:
        """Report no drift of this owner until ``expect`` or ``release``: it is applying these."""
        self._drift.hold(owner, applying)

    def release(self, owner: ObjectKey) -> None:
        """End a hold without new expectations: nothing was applied."""
        self._drift.release(owner)

    def expect(
        self, owner: ObjectKey, known: Mapping[Identity, Known], *, partial: bool = False
    ) -> None:
        """Store the state after an apply (``ChangeSet.known``), and report drift from it.

        Events between the apply and this call are not lost. ``partial`` is for an apply that failed
        half-way: the rest of the earlier expectations stays.
        """
        self._drift.expect(owner, known, partial=partial)

    def leave(self, owner: ObjectKey, refs: Iterable[ObjectRef]) -> None:
        """Tell when one of these objects is gone, which are being deleted; replaces earlier ones.

        Their kinds have to be watched (``ensure``).
        """
        self._leaving.pop(owner, None)
        if left := tuple(refs):
            self._leaving[owner] = left

    def abandon(self, owner: ObjectKey) -> None:
        """Drop the expectations for the owner's objects; their kinds stay watched.

        This is for objects that are about to be deleted, whose changes are no drift.
        """
        self._drift.forget(owner)

    def forget(self, owner: ObjectKey) -> None:
        """Drop the state of a deleted owner; unused watches end."""
        self._drift.forget(owner)
        self._watches.use(owner, (), labelled=True)
        self.observe(owner, ())
        self.leave(owner, ())
        self._rules.pop(owner, None)
        self._judging.forget(owner)
        for item in [item for item in self._fetched if item[0] == owner]:
            del self._fetched[item]

    def known(self, owner: ObjectKey) -> dict[Identity, Known]:
        """Return the applied objects that the watches show as unchanged, for ``ssa.apply``."""
        return self._drift.known(owner)

    def untouched(self, owner: ObjectKey) -> frozenset[Identity]:
        """Return the objects of which the watches prove that they are as the owner left them."""
        return self._drift.untouched(owner)

    def proves(self, owner: ObjectKey) -> bool:
        """Tell whether all that the owner applied is untouched."""
        return self._drift.proves(owner)

    def claims(self, owner: ObjectKey) -> dict[ObjectRef, ObjectKey]:
        """Return the objects that another owner has applied since, with that owner."""
        return self._drift.claims(owner)

    def rivals(self, owner: ObjectKey) -> dict[ObjectRef, tuple[str, ...]]:
        """Return the objects that other managers keep changing, with those managers."""
        return self._drift.rivals(owner)

    def owned(self, owner: ObjectKey) -> frozenset[ObjectRef]:
        """Return all objects of the owner's kinds that carry its labels and fields applied by us.

        What is here and in no inventory is left over from an apply that was killed. Looks through
        the whole caches.
        """
        return frozenset(
            ObjectRef(watch.scope.gvk, key.namespace, key.name)
            for watch in self._watches.used_by(owner)
            if watch.scope.namespace is None
            for key, live in watch.informer.items().items()
            if live.owner == owner and live.entry
        )

    def find(self, ref: ObjectRef) -> Live | None:
        """Return the object as the watches last showed it."""
        watch = self._watches.find(ref)
        return watch.informer.get(ref.key) if watch else None

    def current(self, ref: ObjectRef) -> bool:
        """Tell whether the watch of its kind works and has seen everything once."""
        watch = self._watches.find(ref)
        return watch is not None and watch.current

    def health(self, owner: ObjectKey, ref: ObjectRef) -> Health | None:
        """Return the health of an object, or None if it is unknown.

        It is unknown until the watch shows the version that the owner's last apply wrote.
        """
        item, watch = (owner, ref.identity), self._watches.find(ref)
        if watch is None or not watch.informer.synced:
            return self._judged(item, ref, self._fetched[item]) if item in self._fetched else None
        live = watch.informer.get(ref.key)
        fetched = self._fetched.get(item)
        if live and fetched and not older(fetched.resource_version, live.resource_version):
            live = fetched
        if live is None and self._drift.unconfirmed(owner, ref):
            return None
        return self._judged(item, ref, live)

    def _judged(
        self, item: tuple[ObjectKey, Identity], ref: ObjectRef, live: Live | None
    ) -> Health | None:
        if live is None:
            return NOT_FOUND
        expected = self._drift.expected(item[0], ref)
        if expected and older(live.resource_version, expected.resource_version):
            return None
        if not judged(live, self._rules.get(item[0], ()), ref.gvk):
            if not self._judging.awaits(*item):
                # The object was seen before the owner's rules were set, or has another owner's
                # labels.
                self._wanted[item] = ref
                self._wake.set()
            return None
        return live.health

    def _open(self, scope: Scope) -> Informer[Live]:
        if scope.namespace is None:
            self._drift.recheck(scope.gvk.group_kind)
        projector = self._projector(scope.gvk)

        def decode(raw: bytes) -> Live:
            obj = _decode.decode(raw)
            live = projector.project(obj)
            # Labels alone are not enough: everybody may set them, and the owner's rules would be
            # evaluated on the objects of others.
            if live.owner and self._drift.concerns(live.owner, projector.ref(obj)):
                self._consider(live.owner, live, projector, obj)
            return live

        informer = Informer(
            self._api,
            scope.gvk,
            decode=decode,
            namespace=scope.namespace or "",
            label_selector=ownership.selector(self._group) if scope.namespace is None else "",
        )
        informer.subscribe(lambda change: self._changed(scope, change))
        return informer

    def _projector(self, gvk: GroupVersionKind) -> Projector:
        return Projector(gvk=gvk, manager=self._manager, group=self._group)

    def _consider(self, owner: ObjectKey, live: Live, projector: Projector, obj: Json) -> None:
        """Have an object judged if a rule is for it, and this version was not judged yet."""
        rule = rule_for(self._rules.get(owner, ()), projector.gvk)
        if rule is None or live.settled:
            return
        ref = projector.ref(obj)
        before = self._fetched.get((owner, ref.identity))
        if before and (before.resource_version, before.rule) == (live.resource_version, rule.key):
            return
        self._judging.judge(owner, ref, live, rule, projector.named(obj))

    def _tell_judged(
        self, owner: ObjectKey, ref: ObjectRef, seen: Live, rule: Rule, found: Health
    ) -> None:
        known = self._fetched.get((owner, ref.identity))
        if known is None or not older(seen.resource_version, known.resource_version):
            self._fetched[owner, ref.identity] = replace(seen, health=found, rule=rule.key)
        self._on_health(owner, ref)

    def _changed(self, scope: Scope, change: Change[Live]) -> None:
        ref = ObjectRef(scope.gvk, change.key.namespace, change.key.name)
        if scope.namespace is None:
            self._drift.seen(ref, change.new, change.old)
            if change.new is None:
                self._look_for_gone()
        # also when its health is as before: until now that may have been the state before an apply
        self._tell(ref, gone=change.new is None)

    def _tell(self, ref: ObjectRef, *, gone: bool) -> None:
        for owner in self._drift.owners(ref) | self._observers.get(ref.identity, set()):
            if gone:
                self._fetched.pop((owner, ref.identity), None)
            self._on_health(owner, ref)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Run all timed checks that are due; ``run`` calls this every second."""
        for owner, ref in self._drift.sweep():
            self._on_health(owner, ref)
        self._look_for_gone()
        if self._monotonic() - self._polled >= _POLL_SECONDS:
            self._polled = self._monotonic()
            self._poll()

    def _look_for_gone(self) -> None:
        for owner, refs in tuple(self._leaving.items()):
            if any(self.current(ref) and self.find(ref) is None for ref in refs):
                del self._leaving[owner]
                self._on_gone(owner)

    def _poll(self) -> None:
        for owner, refs in self._observed.items():
            for identity, ref in refs.items():
                watch = self._watches.find(ref)
                if watch is not None and watch.refused:
                    self._wanted[owner, identity] = ref
                    self._wake.set()

    async def _fetch(self) -> None:
        """Read the objects that the watches cannot show, one after the other."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._wanted:
                (owner, identity), ref = self._wanted.popitem()
                try:
                    obj = await self._api.get(ref.gvk, ref.name, ref.namespace)
                except errors.NotFoundError:
                    self._fetched[owner, identity] = None
                except errors.ApiError as exc:
                    logger.info("cannot read object", extra={"object": str(ref), "error": str(exc)})
                    continue
                else:
                    projector = self._projector(ref.gvk)
                    live = projector.project(obj)
                    if not judged(live, self._rules.get(owner, ()), ref.gvk):
                        self._consider(owner, live, projector, obj)
                        continue
                    self._fetched[owner, identity] = live
                self._on_health(owner, ref)
