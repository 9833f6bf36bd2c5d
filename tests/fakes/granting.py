"""ReferenceGrants in memory, and the decisions that rest on them."""

from collections.abc import Callable
from typing import Any

import msgspec

from crds.policy_referencegrant import ReferenceGrant
from toolkit.errors import AccessDeniedError
from toolkit.kube.informer import Change
from toolkit.objects import Json, ObjectKey
from toolkit.policy.references import References

SOURCE = "source.toolkit.fluxcd.io"
KUSTOMIZE = "kustomize.toolkit.fluxcd.io"


def grant(
    namespace: str, *, of: Json, to: Json, name: str = "grant", **metadata: Any
) -> ReferenceGrant:
    """Return a grant in a namespace."""
    body = {
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"from": [of], "to": [to]},
    }
    return msgspec.convert(body, ReferenceGrant)


class GrantCache:
    """A cache of grants; ``put`` and ``drop`` are what a watch would tell."""

    def __init__(self, *grants: ReferenceGrant, synced: bool = True) -> None:
        self.synced = synced
        self._items: dict[ObjectKey, ReferenceGrant] = {}
        self._handlers: list[Callable[[Change[ReferenceGrant]], None]] = []
        for each in grants:
            self.put(each)

    async def wait_synced(self) -> None:
        """Wait for nothing."""

    def subscribe(self, handler: Callable[[Change[ReferenceGrant]], None]) -> None:
        """Call the handler for what is here and for every change."""
        self._handlers.append(handler)
        for key, item in self._items.items():
            handler(Change("ADDED", key, None, item))

    def put(self, obj: ReferenceGrant) -> None:
        """Create a grant, or change it."""
        key = ObjectKey(obj.metadata.namespace, obj.metadata.name)
        old = self._items.get(key)
        self._items[key] = obj
        for handler in self._handlers:
            handler(Change("MODIFIED" if old else "ADDED", key, old, obj))

    def drop(self, obj: ReferenceGrant) -> None:
        """Delete a grant."""
        key = ObjectKey(obj.metadata.namespace, obj.metadata.name)
        old = self._items.pop(key)
        for handler in self._handlers:
            handler(Change("DELETED", key, old, None))


def allowing(*grants: ReferenceGrant, cross_namespace: bool = True) -> References:
    """Return decisions that rest on these grants."""
    return References(grants=lambda _: grants, cross_namespace=cross_namespace)


class AnySource:
    """Source policies that refuse nothing but the names that a test puts here."""

    def __init__(self, *refused: str) -> None:
        self._refused = refused

    def check(self, obj: Any) -> None:
        """Refuse by name."""
        if obj.metadata.name in self._refused:
            raise AccessDeniedError(f"'{obj.metadata.name}' is forbidden")

    def check_artifact(self, _: Any, metadata: Any) -> None:
        """Refuse by signer."""
        if metadata.get("verify.penstock.dev/identity") in self._refused:
            raise AccessDeniedError("somebody else must sign")
