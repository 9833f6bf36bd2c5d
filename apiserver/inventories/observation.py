"""Observe applied objects: one watch per kind, as long as an inventory lists the kind.

The watches are those of the controllers (``toolkit.apply.watches``): they select by the owner
label, so other objects never arrive, and project each object on arrival, so no whole object stays.
A kind that may not be watched, or is not served, is not a failure: its objects are unobserved, and
``reason`` says why. The watch is tried again from time to time, because permissions and kinds
change.

Tenants write health expressions. A worker process evaluates them (``toolkit.apply.judging``), and
rests for most of the time.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol

import msgspec

from apiserver.inventories.appliers import Applier
from apiserver.inventories.drift import Observed
from apiserver.inventories.rows import UNREAD
from toolkit.apply import fields, health, ownership, projection
from toolkit.apply.health import Health, Rule
from toolkit.apply.judging import Judging
from toolkit.apply.order import GroupKind, Identity
from toolkit.apply.ownership import Owner
from toolkit.apply.projection import Projector, rule_for
from toolkit.apply.watches import Scope, Watch, Watches
from toolkit.errors import PenstockError
from toolkit.expressions.evaluator import Evaluates
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef, dig

logger = logging.getLogger(__name__)

RulesOf = Callable[[ObjectKey | None], tuple[Rule, ...]]

_EVERYBODY: Final = ObjectKey("", "inventories")
_LOOK_SECONDS: Final = 1.0
_READ_SECONDS: Final = 10.0
_NAMED: Final = ("name", "namespace")
_decode: Final = msgspec.json.Decoder()


class Told(Protocol):
    """Gets the changes of the watches. Must not block."""

    def seen(self, ref: ObjectRef, new: Observed | None, *, gap: bool = False) -> None:
        """Take in the next state of an object; None if it is gone, or has lost its labels.

        With a ``gap`` there may have been others in between.
        """

    def looked(self, ref: ObjectRef, *, exists: bool | None) -> None:
        """Handle whether an object without a watch exists; None if it is unknown."""

    def lists(self, owner: ObjectKey, ref: ObjectRef) -> bool:
        """Tell whether the inventory of an owner lists an object."""
        ...

    def kind_changed(self, kind: GroupKind) -> None:
        """Look at all objects of a kind again: its watch works now, or no longer does."""


class Observation:
    """The watches of one kind of applier, on the cluster that we run on."""

    def __init__(
        self,
        api: Client,
        applier: Applier,
        told: Told,
        *,
        rules_of: RulesOf,
        evaluates: Evaluates,
    ) -> None:
        self._api = api
        self._applier = applier
        self._told = told
        self._rules_of = rules_of
        self._watches: Watches[Observed] = Watches(self._open)
        self._listed: Counter[GroupVersionKind] = Counter()
        self._stale = False
        self._last: dict[GroupKind, tuple[Watch[Observed], str]] = {}
        """The watch of each kind at the last look, and why it did not observe."""
        self._judging: Judging[Observed] = Judging(evaluates, self._judged)
        self._later: dict[Identity, ObjectRef] = {}
        self._busy = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watches.run())
            group.create_task(self._look())
            group.create_task(self._read())
            group.create_task(self._judging.run())

    def list(self, refs: Iterable[ObjectRef]) -> None:
        """Count the objects that an inventory lists from now on."""
        for ref in refs:
            self._listed[ref.gvk] += 1
            self._stale = self._stale or self._listed[ref.gvk] == 1

    def unlist(self, refs: Iterable[ObjectRef]) -> None:
        """Stop counting these objects."""
        for ref in refs:
            self._listed[ref.gvk] -= 1
            if not self._listed[ref.gvk]:
                del self._listed[ref.gvk]
                self._stale = True

    def settle(self) -> None:
        """Start and end watches, so that exactly the kinds that are listed are watched."""
        if self._stale:
            self._stale = False
            chosen: dict[GroupKind, GroupVersionKind] = {}
            for gvk, _ in reversed(self._listed.most_common()):
                chosen[gvk.group_kind] = gvk  # of several versions, the one most often listed
            self._watches.use(_EVERYBODY, [Scope(g) for g in chosen.values()], labelled=True)

    def find(self, ref: ObjectRef) -> Observed | None:
        """Return the object as it was last seen."""
        watch = self._watches.find(ref)
        return watch.informer.get(ref.key) if watch else None

    def reason(self, ref: ObjectRef) -> str:
        """Return why objects of this kind are not observed; empty when they are."""
        watch = self._watches.find(ref)
        return self._reason(watch) if watch else UNREAD

    def read_later(self, ref: ObjectRef) -> None:
        """Read an object by itself.

        For one that was not judged by its owner's expressions, and for one that no watch shows. One
        that is being judged is not read.
        """
        seen = self.find(ref)
        if seen and seen.live.owner and self._judging.awaits(seen.live.owner, ref.identity):
            return
        self._later[ref.identity] = ref
        self._wake.set()

    @property
    def settled(self) -> bool:
        """Tell whether every watch has shown what there is, or why it cannot."""
        return not self._stale and all(
            watch.informer.synced or watch.informer.last_error is not None
            for watch in self._watches.used_by(_EVERYBODY)
        )

    @property
    def reading(self) -> bool:
        """Tell whether objects are yet to be read by themselves."""
        return bool(self._later) or self._busy or self._judging.busy

    def look(self) -> None:
        """Find out which kinds are observed; ``run`` does so every second.

        A watch that replaced another one between two looks counts as a change: rows were counted
        while it had not read anything yet.
        """
        found = {
            watch.scope.gvk.group_kind: (watch, self._reason(watch))
            for watch in self._watches.used_by(_EVERYBODY)
        }
        before, self._last = self._last, found
        for kind in before.keys() | found.keys():
            if before.get(kind) != found.get(kind):
                self._told.kind_changed(kind)

    async def _look(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def _reason(self, watch: Watch[Observed]) -> str:
        """Return why the kind is not observed; a retried watch counts as refused until it synced.

        Every new kind causes all refused watches to be tried again, and inventories must not change
        with it.
        """
        error, gvk = watch.informer.last_error, watch.scope.gvk
        if error is None and watch.informer.synced:
            return ""
        if isinstance(error, errors.NoMatchError):
            return f"{gvk.api_version} {gvk.kind} is not served"
        if isinstance(error, errors.ForbiddenError | errors.UnauthorizedError):
            return f"{gvk.kind} may not be watched by penstock-apiserver"
        if watch.refused:
            return f"{gvk.kind} cannot be watched"
        _, before = self._last.get(gvk.group_kind, (watch, UNREAD))
        return "" if watch.informer.synced else before or UNREAD

    def _open(self, scope: Scope) -> Informer[Observed]:
        informer = Informer(
            self._api,
            scope.gvk,
            decode=lambda raw: self._project(scope.gvk, _decode.decode(raw)),
            label_selector=ownership.selector(self._applier.group),
            metadata_only=scope.gvk in _SECRETIVE,
        )

        def handle(change: Change[Observed]) -> None:
            ref = ObjectRef(scope.gvk, change.key.namespace, change.key.name)
            self._told.seen(ref, change.new, gap=change.gap)

        informer.subscribe(handle)
        return informer

    async def _get(self, ref: ObjectRef) -> Json:
        resource = await self._api.mapper.resource(ref.gvk)
        accept = _METADATA if ref.gvk in _SECRETIVE else "application/json"
        path = resource.path(ref.name, ref.namespace)
        return await self._api.request("GET", path, headers={"Accept": accept})

    def _project(self, gvk: GroupVersionKind, obj: Json) -> Observed:
        """Return the cached part of an object, and have it judged if a rule is for it."""
        found = project(gvk, obj, self._applier)
        owner = found.live.owner
        rule = rule_for(self._rules_of(owner), gvk) if owner else None
        if owner and rule and not found.live.settled:
            name, namespace = (str(dig(obj, "metadata", key, default="")) for key in _NAMED)
            named = {**obj, "apiVersion": gvk.api_version, "kind": gvk.kind}
            ref = ObjectRef(gvk, namespace, name)
            # Everybody may set the labels. What is listed later is read then.
            if self._told.lists(owner, ref):
                self._judging.judge(owner, ref, found, rule, named)
        return found

    def _judged(
        self, owner: ObjectKey, ref: ObjectRef, seen: Observed, rule: Rule, found: Health
    ) -> None:
        latest = self.find(ref)
        same = latest and latest.live.resource_version == seen.live.resource_version
        if same and owner == seen.live.owner:
            live = replace(seen.live, health=found, rule=rule.key)
            self._told.seen(ref, replace(seen, live=live), gap=True)

    async def _read(self) -> None:
        """Read the objects that no watch shows, one after the other."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._later:
                _, ref = self._later.popitem()
                self._busy = True
                await self._read_one(ref)
                self._busy = False

    async def _read_one(self, ref: ObjectRef) -> None:
        old = self.find(ref)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                obj = await self._get(ref)
        except errors.NotFoundError:
            if old is None and self.find(ref) is None:
                self._told.looked(ref, exists=False)
        except (PenstockError, TimeoutError) as exc:
            logger.info("cannot read object", extra={"object": str(ref), "error": str(exc)})
            if old is None and self.find(ref) is None:
                self._told.looked(ref, exists=None)
        else:
            if self.find(ref) is not old:
                return  # the watch was faster
            if old is None:
                self._told.looked(ref, exists=True)
            else:
                self._told.seen(ref, self._project(ref.gvk, obj), gap=True)


_SECRETIVE: Final = frozenset({GroupVersionKind("", "v1", "Secret")})
"""Kinds of which only metadata are read, even if the permissions allow more."""
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def project(gvk: GroupVersionKind, obj: Json, applier: Applier) -> Observed:
    """Return the cached part of an object of this kind; items of lists have no kind themselves."""
    projector = Projector(gvk=gvk, manager=applier.manager, group=applier.group)
    # metadata alone come as a kind of their own
    named = {**obj, "apiVersion": gvk.api_version, "kind": gvk.kind}
    live = projector.project(named)
    entry = fields.applied_entry(obj, applier.manager) or {}
    owned: Json = entry.get("fieldsV1") or {}
    owner = live.owner or ObjectKey("", "")
    whose = Owner(namespace=owner.namespace, name=owner.name, group=applier.group)
    return Observed(
        live=live,
        created=sys.intern(str(dig(obj, "metadata", "creationTimestamp", default=""))),
        applied=live.stamp,
        owned=fields.size(owned),
        sole=_sole(obj, entry, owned),
        later=_later(obj, applier.manager, live.stamp),
        vanishing=health.vanishes(named),
        # What may be pruned is not to be left alone.
        disabled=(live.kept or live.owner is None) and ownership.hands_off(named, whose),
        yielded=ownership.yields(named, whose),
    )


def judged(ref: ObjectRef, seen: Observed, rules: tuple[Rule, ...]) -> bool:
    """Tell whether an object was judged by these rules."""
    return projection.judged(seen.live, rules, ref.gvk)


def _sole(obj: Json, entry: Json, owned: Json) -> str:
    """Return a digest of the fields that only the applier owns."""
    left = owned
    for other in fields.entries(obj):
        if other is not entry:
            left = fields.without(left, other.get("fieldsV1") or {})
    return fields.digest(left)


def _later(obj: Json, manager: str, applied: str) -> tuple[str, ...]:
    """Return the managers that have written after the applier, or in the same second.

    Managers of the status only do not count. Times compare as text. An entry of only finalizers or
    owner references took nothing from others: these are lists whose items have separate owners.
    """
    found = {
        str(entry.get("manager") or "unknown")
        for entry in fields.entries(obj)
        if entry.get("subresource") != "status"
        and (entry.get("manager"), entry.get("operation")) != (manager, fields.APPLY)
        and applied
        and str(entry.get("time") or "") >= applied
        and fields.paths(entry.get("fieldsV1") or {}, depth=2) not in _HARMLESS
    }
    return tuple(sorted(found))


_LISTS: Final = (("f:metadata", "f:finalizers"), ("f:metadata", "f:ownerReferences"))
_HARMLESS: Final = ({_LISTS[0]}, {_LISTS[1]}, set(_LISTS))
