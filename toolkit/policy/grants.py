"""The ReferenceGrants of a cluster, by the namespace of their targets.

They come from a cache. Until the cache has synced once, grants are unknown and decisions wait. A
grant that is being deleted has no effect.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from crds.policy_referencegrant import ReferenceGrant
from toolkit.errors import WaitingError
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey

_AGAIN_SECONDS = 1.0


class Cache(Protocol):
    """An informer of ReferenceGrants."""

    @property
    def synced(self) -> bool:
        """Tell whether the cache has been complete once."""

    async def wait_synced(self) -> None:
        """Wait until it has been."""

    def subscribe(self, handler: Callable[[Change[ReferenceGrant]], None]) -> None:
        """Call ``handler`` for every change, and at once for all that is here."""


class Permission(NamedTuple):
    """One permission of a grant: these holders may refer to these targets.

    The namespace of the holders may be ``*``. An empty name of the target means all objects of its
    kind.
    """

    holder_group: str
    holder_kind: str
    holder_namespace: str
    target_group: str
    target_kind: str
    target_name: str


Changed = Callable[[str, frozenset[Permission]], None]
"""Gets the namespace of the targets, and the permissions that were added or removed there."""


class Grants:
    """Returns grants by namespace; ``subscribe`` reports added and removed permissions."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: defaultdict[str, dict[str, ReferenceGrant]] = defaultdict(dict)
        self._handlers: list[Changed] = []
        cache.subscribe(self._saw)

    def __call__(self, namespace: str) -> tuple[ReferenceGrant, ...]:
        """Return the grants of a namespace.

        Raises:
            WaitingError: the grants have not been listed yet.
        """
        if not self._cache.synced:
            raise WaitingError(
                "the ReferenceGrants of the cluster are not read yet",
                reason="DependencyNotReady",
                retry_after=_AGAIN_SECONDS,
            )
        return tuple(self._known[namespace].values()) if namespace in self._known else ()

    @property
    def synced(self) -> bool:
        """Tell whether the grants have been listed."""
        return self._cache.synced

    async def wait_synced(self) -> None:
        """Wait until the grants have been listed."""
        await self._cache.wait_synced()

    def subscribe(self, handler: Changed) -> None:
        """Call ``handler`` with what each change of a grant allows or ends, from now on."""
        self._handlers.append(handler)

    def _saw(self, change: Change[ReferenceGrant]) -> None:
        namespace = change.key.namespace
        self._put(change.key, change.new)
        if not self._known[namespace]:
            del self._known[namespace]
        changed = _permissions(change.old) ^ _permissions(change.new)
        if changed:
            for handler in self._handlers:
                handler(namespace, changed)

    def _put(self, key: ObjectKey, grant: ReferenceGrant | None) -> None:
        if grant is not None and not grant.metadata.deletion_timestamp:
            self._known[key.namespace][key.name] = grant
        else:
            self._known[key.namespace].pop(key.name, None)


def _permissions(grant: ReferenceGrant | None) -> frozenset[Permission]:
    """Return the permissions of a grant; empty if it is being deleted."""
    if grant is None or grant.metadata.deletion_timestamp:
        return frozenset()
    return frozenset(
        Permission(of.group, of.kind, of.namespace, to.group, to.kind, to.name)
        for of in grant.spec.from_
        for to in grant.spec.to
    )
