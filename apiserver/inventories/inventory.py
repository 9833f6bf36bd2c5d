"""One inventory: its totals, updated row by row, and the object that is served.

The object stays small, however many objects the inventory lists: it has counts, and the first rows
that need attention. The subresource ``objects`` has all rows.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from apiserver.inventories import rows
from apiserver.inventories.appliers import Applied, Applier, Source
from apiserver.inventories.rows import Flag, Row, Tracked
from toolkit.apply.order import Identity
from toolkit.objects import Json, ObjectKey, ObjectRef

API_VERSION: Final = "gitops.penstock.dev/v1alpha1"
KIND: Final = "Inventory"
SOURCE_KIND: Final = "gitops.penstock.dev/source-kind"
SOURCE_NAME: Final = "gitops.penstock.dev/source-name"
APPLIER_KIND: Final = "gitops.penstock.dev/applier-kind"
READY: Final = "gitops.penstock.dev/ready"

_PROBLEMS: Final = 10
_LONGEST_LABEL: Final = 63
_MAX_MESSAGE: Final = 256


@dataclass(slots=True, kw_only=True)
class Inventory:
    """An applier, and the state of all objects in its inventory."""

    applier: Applier
    applied: Applied
    watched: tuple[ObjectRef, ...] = ()
    flags: dict[Identity, int] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    """How many objects have each combination of flags; as numbers, which are cheap to test."""
    problems: dict[Identity, None] = field(default_factory=dict)
    revision: int = 0

    @property
    def key(self) -> ObjectKey:
        """Return the namespace and name that it is served under."""
        own = self.applied.key
        return ObjectKey(own.namespace, f"{self.applier.prefix}{own.name}")

    def put(self, identity: Identity, row: Row) -> bool:
        """Count a row again; return whether the shown object may change."""
        before, now = self.flags.get(identity), row.flags.value
        if before != now:
            self._uncount(before)
            self.flags[identity] = now
            self.totals[now] = self.totals.get(now, 0) + 1
        shown = not row.fine or identity in self.problems
        if row.fine:
            self.problems.pop(identity, None)
        else:
            self.problems[identity] = None
        return shown or before != now

    def drop(self, identity: Identity) -> None:
        """Stop counting an object that has left the inventory."""
        self._uncount(self.flags.pop(identity, None))
        self.problems.pop(identity, None)

    def _uncount(self, flags: int | None) -> None:
        if flags is not None:
            self.totals[flags] -= 1
            if not self.totals[flags]:
                del self.totals[flags]

    def count(self, flag: Flag) -> int:
        """Return the number of objects with a flag."""
        mask = flag.value
        return sum(number for flags, number in self.totals.items() if flags & mask)

    @property
    def ready(self) -> bool:
        """Tell whether the applier is done and well, and so is every object that can be seen."""
        observed = self.count(Flag.OBSERVED)
        well = self.applied.condition("Ready").get("status") == "True"
        intact = not (self.count(Flag.DRIFTED | Flag.UNREAD) or self.applied.problem)
        return well and intact and self.count(Flag.READY) == observed

    def document(self, shown: Callable[[Identity], tuple[Tracked, Row]]) -> Json:
        """Return the object as it is served; ``shown`` gives the row of an object."""
        applied = self.applied
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": self._metadata(),
            "spec": self._spec(),
            "status": {
                "ready": str(self.ready),
                "message": self._message(),
                "revision": applied.revision,
                "attemptedRevision": applied.attempted,
                **self._counts(),
                "conditions": list(applied.conditions),
                "problems": [
                    rows.document(applied, *shown(identity))
                    for identity in nsmallest(_PROBLEMS, self.problems)
                ],
            },
        }

    def _counts(self) -> Json:
        listed, observed = len(self.flags), self.count(Flag.OBSERVED)
        return {
            "objects": listed,
            "observed": observed,
            "unobserved": listed - observed,
            "current": self.count(Flag.READY),
            "failed": self.count(Flag.FAILED),
            "drifted": self.count(Flag.DRIFTED),
            "missing": self.count(Flag.MISSING),
            "foreign": self.count(Flag.FOREIGN),
        }

    def _metadata(self) -> Json:
        applied = self.applied
        ours = {APPLIER_KIND: self.applier.kind.kind, READY: str(self.ready)}
        for source in applied.sources[:1]:
            ours |= {SOURCE_KIND: source.kind, SOURCE_NAME: source.name}
        short = {name: text for name, text in ours.items() if len(text) <= _LONGEST_LABEL}
        return {
            "name": self.key.name,
            "namespace": self.key.namespace,
            "uid": str(uuid.uuid5(_UIDS, applied.uid)),
            "creationTimestamp": applied.created,
            "labels": {**applied.labels, **short},
        }

    def _spec(self) -> Json:
        applied, first = self.applied, next(iter(self.applied.sources), None)
        spec: Json = {
            "applierRef": {
                "apiVersion": self.applier.gvk.api_version,
                "kind": self.applier.kind.kind,
                "name": applied.key.name,
            },
            "suspended": applied.suspended,
            "remote": applied.remote,
        }
        if first is not None:
            spec["sourceRef"] = _source(first)
        if len(applied.sources) > 1:
            spec["sourceRefs"] = [_source(source) for source in applied.sources[1:]]
        return spec

    def _message(self) -> str:
        """Return the first thing that keeps it from being ready, in a line."""
        applied = self.applied
        ready = applied.condition("Ready")
        if applied.problem or ready.get("status") != "True":
            text = applied.problem or str(ready.get("message") or "not reconciled yet")
            return text.partition("\n")[0][:_MAX_MESSAGE]
        counted = (
            (self.count(Flag.MISSING), "missing"),
            (self.count(Flag.DRIFTED) - self.count(Flag.MISSING), "changed"),
            (self.count(Flag.FAILED), "failed"),
            (self.count(Flag.FOREIGN), "of another owner"),
        )
        told = [f"{number} {words}" for number, words in counted if number]
        waiting = self.count(Flag.OBSERVED) - self.count(Flag.READY)
        told = told or [f"{waiting} not current yet"] * bool(waiting)
        unread = self.count(Flag.UNREAD)
        return ", ".join(told or [f"{unread} not read yet"] * bool(unread))


_UIDS: Final = uuid.UUID("6f0bd0c1-1a57-4c5c-9a41-3f7c0f0f6d1e")


def _source(source: Source) -> Json:
    found = {
        "kind": source.kind,
        "namespace": source.namespace,
        "name": source.name,
        "path": source.path,
    }
    return {name: value for name, value in found.items() if value}
