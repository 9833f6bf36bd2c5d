"""Passes of a real ``SourceReconciler`` over objects in memory, as a controller would run them."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from controllers.source.reconciler import SourceReconciler
from controllers.source.source import Source, SourceObject
from crds.kind import Kind
from toolkit import telemetry
from toolkit.artifact.store import Store
from toolkit.errors import AccessDeniedError, PenstockError
from toolkit.kube.reconciliation import Event, Outcome, Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from toolkit.policy import origins


class Allowed:
    """Policies that refuse what a test puts here: an object by name, or a signer's name."""

    def __init__(self) -> None:
        self.objects: set[str] = set()
        self.signers: set[str] = set()
        self.addresses: set[str] = set()
        self.told: tuple[str, ...] = ()

    synced = True

    async def wait_synced(self) -> None:
        """Wait for nothing."""

    def check(self, obj: SourceObject) -> Iterable[object]:
        """Refuse the objects."""
        if obj.metadata.name in self.objects:
            raise AccessDeniedError(f"'{obj.metadata.name}' is forbidden")
        return self.told

    def check_artifact(self, _: SourceObject, metadata: Mapping[str, str]) -> Iterable[object]:
        """Refuse the signers, and the addresses."""
        for origin in origins.read(metadata):
            if origin.url in self.addresses:
                raise AccessDeniedError(f"'{origin.url}' is forbidden")
        if metadata.get("verify.penstock.dev/identity", "") in self.signers:
            raise AccessDeniedError("somebody else must sign")
        return ()


class Cluster:
    """Objects by kind and key; a pass writes their status back."""

    def __init__(self, store: Store, scratch: Path) -> None:
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.events: list[Event] = []
        self.policy = Allowed()
        self.parents: list[Any] = []
        self._store = store
        self._scratch = scratch

    def put(self, obj: Any) -> None:
        """Create an object, or replace it."""
        self.objects[obj.kind, obj.metadata.namespace, obj.metadata.name] = obj

    def lookup(self, kind: str, key: ObjectKey) -> SourceObject | None:
        """Return an object as a source looks it up."""
        return self.objects.get((kind, key.namespace, key.name))

    def listing(self, kind: str, namespace: str) -> list[SourceObject]:
        """Return the objects of a kind in a namespace."""
        return [obj for key, obj in self.objects.items() if key[:2] == (kind, namespace)]

    def emit(self, event: Event) -> None:
        """Record an event."""
        self.events.append(event)

    async def reconcile(
        self, kind: Kind[Any], source: Source[Any, Any], obj: Any, *triggers: str
    ) -> Outcome:
        """Run one pass over an object and keep its status, also if the pass fails."""
        reconciler = SourceReconciler(
            source,
            self._store,
            scratch=self._scratch,
            policy=self.policy,
            parents=lambda _: self.parents,
        )
        return await self.run(kind, reconciler.reconcile, obj, *triggers)

    async def run(
        self,
        kind: Kind[Any],
        reconcile: Callable[[Reconciliation[Any]], Awaitable[Outcome]],
        obj: Any,
        *triggers: str,
    ) -> Outcome:
        """Run one pass of any reconciler; else as ``reconcile``."""
        rec = Reconciliation(
            self.objects[obj.kind, obj.metadata.namespace, obj.metadata.name],
            GroupVersionKind(*kind.gvk),
            id="pass",
            triggers=frozenset(triggers),
            recorder=self,
            log=telemetry.ObjectLogger(logging.getLogger(__name__), {}),
            write_status=self.write,
        )
        try:
            outcome = await reconcile(rec)
        except PenstockError as error:
            rec.mark("Ready", "False", error.reason, str(error))
            raise
        else:
            return outcome
        finally:
            await rec.write()

    async def write(self, obj: Any, body: Json) -> Any:
        """Apply a merge patch to an object's status."""
        status = _patched(msgspec.to_builtins(obj.status), body)
        written = msgspec.structs.replace(obj, status=msgspec.convert(status, type(obj.status)))
        self.put(written)
        return written


def condition(obj: Any, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition; empty strings where it is missing."""
    for found in msgspec.to_builtins(obj.status.conditions):
        if found["type"] == kind:
            return found["status"], found["reason"], found["message"]
    return "", "", ""


def _patched(value: Json, body: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386)."""
    result = dict(value)
    for key, new in body.items():
        if new is None:
            result.pop(key, None)
        elif isinstance(new, dict):
            old = result.get(key)
            result[key] = _patched(old if isinstance(old, dict) else {}, new)
        else:
            result[key] = new
    return result
