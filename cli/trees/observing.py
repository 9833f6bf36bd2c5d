"""Observe objects of inventories on other clusters, with the permissions of the user.

The aggregated API observes only its own cluster, and says so. Here the objects are read as in
``penstock tree``, and judged as in the aggregated API (``apiserver.inventories``). Drift is only
what one read can show: a change that left no trace in ``managedFields`` is not found.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from apiserver.inventories import columns
from apiserver.inventories import rows as judging
from apiserver.inventories.appliers import APPLIERS, Applied, Applier
from apiserver.inventories.drift import Observed
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.observation import project
from apiserver.inventories.rows import Row, Tracked
from cli import errors
from cli.trees import entering
from crds import misfits
from toolkit.apply import bounded, health
from toolkit.apply.health import Rule
from toolkit.apply.order import Identity
from toolkit.apply.projection import rule_for
from toolkit.errors import PenstockError
from toolkit.expressions import evaluator
from toolkit.expressions.evaluator import Case
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig, key_of

_SECONDS: Final = 20.0
"""Timeout for one inventory: the server may be hostile."""
_SILENT: Final = f"the cluster did not answer in {_SECONDS:.0f} s"
_AT_ONCE: Final = 8
_METADATA: Final = frozenset({GroupVersionKind("", "v1", "Secret")})
"""Kinds of which only metadata are read."""


async def completed(api: Client, inventories: Sequence[Json]) -> list[Json]:
    """Return the inventories; those of other clusters with the status of their objects there.

    If objects cannot be read, the message of the inventory has the reason.
    """
    async with RemoteClients(api) as remotes:
        observer = _Observer(api, remotes)
        return list(await asyncio.gather(*map(observer.complete, inventories)))


async def complete(api: Client, table: Json) -> None:
    """Change the cells of a ``Table`` of inventories whose rows carry whole objects."""
    names = [str(column["name"]) for column in table.get("columnDefinitions") or ()]
    lines = table.get("rows") or ()
    found = await completed(api, [line["object"] for line in lines])
    for line, obj in zip(lines, found, strict=True):
        if obj is not line["object"]:
            cells = zip(names, line["cells"], strict=True)
            line["cells"] = [_CELLS[name](obj) if name in _CELLS else old for name, old in cells]


_CELLS: Final = {each.name: each.cell for each in columns.COLUMNS if each.type != "date"}
"""The functions for the cells of each column; dates are shown as ages, and stay."""


class _Observer:
    def __init__(self, api: Client, remotes: RemoteClients) -> None:
        self._api = api
        self._remotes = remotes
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._silent: set[tuple[str, str]] = set()
        """Clusters that did not answer, by namespace and reference; they are not tried again."""

    async def complete(self, inventory: Json) -> Json:
        """Return an inventory, the same object if it is of this cluster."""
        if not dig(inventory, "spec", "remote"):
            return inventory
        try:
            async with self._turns:
                return inventory | {"status": await self._status(inventory)}
        except PenstockError as exc:
            told = f"{entering.FAR}: {exc}"
            return inventory | {"status": inventory["status"] | {"message": told}}

    async def _status(self, inventory: Json) -> Json:
        applier, applied, obj = await self._applier(inventory)
        namespace = applied.key.namespace
        cluster = (namespace, repr(dig(obj, "spec", "kubeConfig")))
        if cluster in self._silent:
            raise ApiError(_SILENT)
        try:
            async with (
                asyncio.timeout(_SECONDS),
                entering.entered(self._remotes, namespace, obj) as there,
            ):
                reading = _Reading(api=there, applier=applier, applied=applied)
                await reading.read()
        except TimeoutError as exc:
            self._silent.add(cluster)
            raise ApiError(_SILENT) from exc
        found = Inventory(applier=applier, applied=applied)
        for ref in applied.refs:
            found.put(ref.identity, reading.shown(ref.identity)[1])
        status: Json = found.document(reading.shown)["status"]
        return status

    async def _applier(self, inventory: Json) -> tuple[Applier, Applied, Json]:
        """Read whose inventory it is, as the applier of objects that can be seen."""
        named = inventory["spec"]["applierRef"]
        applier = next((row for row in APPLIERS if row.kind.kind == named["kind"]), None)
        if applier is None:
            raise errors.UsageError(f"{named['kind']} is not known to this version of penstock")
        path = (await self._api.mapper.resource(applier.gvk)).path(
            str(named["name"]), key_of(inventory).namespace
        )
        raw = await self._api.read(path, query={}, accept="application/json")
        try:
            return applier, replace(applier.read(raw), remote=False), msgspec.json.decode(raw)
        except (msgspec.MsgspecError, RecursionError) as exc:
            raise ApiError(f"{named['kind']} cannot be read: {misfits.told(exc)}") from exc


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The objects of one applier, and for some kinds the reason why they are unknown."""

    api: Client
    applier: Applier
    applied: Applied
    tracked: dict[Identity, Tracked] = field(default_factory=dict)
    reasons: dict[Identity, str] = field(default_factory=dict)
    cases: dict[Identity, tuple[Rule, Case]] = field(default_factory=dict)

    def shown(self, identity: Identity) -> tuple[Tracked, Row]:
        """Return an object and its row."""
        found = self.tracked[identity]
        return found, judging.row(self.applied, found, self.reasons.get(identity, ""))

    async def read(self) -> None:
        """List the kinds of each namespace by the labels, then read the missing objects."""
        self.tracked = {ref.identity: Tracked(ref=ref) for ref in self.applied.refs}
        places: dict[tuple[GroupVersionKind, str], list[ObjectRef]] = {}
        for ref in self.applied.refs:
            places.setdefault((ref.gvk, ref.namespace), []).append(ref)
        order = sorted(places)
        answers = await bounded.each(order, self._list, limit=_AT_ONCE)
        for place, answer in zip(order, answers, strict=True):
            if isinstance(answer, ApiError):
                reason = f"{place[0].kind} cannot be read there: {answer}"
                self.reasons |= dict.fromkeys((ref.identity for ref in places[place]), reason)
        await self._look(
            each.ref
            for identity, each in self.tracked.items()
            if each.seen is None and identity not in self.reasons
        )
        await self._judge()

    async def _list(self, place: tuple[GroupVersionKind, str]) -> None:
        gvk, namespace = place
        group, key = self.applier.group, self.applied.key
        selector = f"{group}/name={key.name},{group}/namespace={key.namespace}"
        only = gvk in _METADATA
        pages = self.api.pages(gvk, namespace, label_selector=selector, metadata_only=only)
        async for page in pages:
            for obj in page:
                self._take(gvk, obj)

    async def _look(self, refs: Iterable[ObjectRef]) -> None:
        """Read objects by name that do not have the labels of the applier, or do not exist."""
        wanted = tuple(refs)
        answers = await bounded.each(wanted, self._get, limit=_AT_ONCE)
        for ref, answer in zip(wanted, answers, strict=True):
            tracked = self.tracked[ref.identity]
            if isinstance(answer, NotFoundError):
                tracked.look(exists=False)
            elif isinstance(answer, ApiError):
                tracked.look(exists=None)
            else:
                self._looked(tracked, answer)

    async def _get(self, ref: ObjectRef) -> Json:
        only = ref.gvk in _METADATA
        return await self.api.get(ref.gvk, ref.name, ref.namespace, metadata_only=only)

    def _take(self, gvk: GroupVersionKind, obj: Json) -> None:
        key = key_of(obj)
        tracked = self.tracked.get(ObjectRef(gvk, key.namespace, key.name).identity)
        if tracked is not None:
            tracked.take(self._projected(gvk, obj))

    def _looked(self, tracked: Tracked, obj: Json) -> None:
        """Handle an object with another owner, or without one."""
        seen = self._projected(tracked.ref.gvk, obj)
        if seen.live.owner is None:
            tracked.look(exists=True)
        else:
            tracked.take(seen)

    def _projected(self, gvk: GroupVersionKind, obj: Json) -> Observed:
        found = project(gvk, obj, self.applier)
        rule = rule_for(self.applied.rules, gvk)
        key = key_of(obj)
        if rule and not found.live.settled:
            named = {**obj, "apiVersion": gvk.api_version, "kind": gvk.kind}
            identity = ObjectRef(gvk, key.namespace, key.name).identity
            self.cases[identity] = (rule, health.case(rule, named))
        return found

    async def _judge(self) -> None:
        """Judge the objects for which the applier has expressions, by a worker of the engine."""
        if not self.cases:
            return
        evaluates = evaluator.start()
        try:
            cases = [case for _, case in self.cases.values()]
            outcomes = await evaluates.evaluate(self.applied.key.namespace, cases)
        except PenstockError as exc:
            reason = f"the health expressions cannot be evaluated: {exc}"
            self.reasons |= dict.fromkeys(self.cases, reason)
            return
        finally:
            await evaluates.close()
        for (identity, (rule, _)), found in zip(self.cases.items(), outcomes, strict=True):
            tracked = self.tracked[identity]
            if seen := tracked.seen:
                live = replace(seen.live, health=health.judged(rule, found), rule=rule.key)
                tracked.take(replace(seen, live=live))
