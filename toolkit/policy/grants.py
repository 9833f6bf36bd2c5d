"""The ReferenceGrants of a cluster, by the namespace that they open.

Kept from a cache of the kind. Until that has been complete once nobody can tell what is granted, so
nothing is: the decision waits. A grant that is being deleted grants nothing any more.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

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


class Grants:
    """Looks grants up by namespace; ``subscribe`` tells which namespace's have changed."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: defaultdict[str, dict[str, ReferenceGrant]] = defaultdict(dict)
        self._handlers: list[Callable[[str], None]] = []
        cache.subscribe(self._saw)

    def __call__(self, namespace: str) -> tuple[ReferenceGrant, ...]:
        """Return the grants of a namespace.

        Raises:
            WaitingError: they are not known yet.
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
        """Tell whether the grants are known."""
        return self._cache.synced

    async def wait_synced(self) -> None:
        """Wait until the grants are known."""
        await self._cache.wait_synced()

    def subscribe(self, handler: Callable[[str], None]) -> None:
        """Call ``handler`` with each namespace whose grants change from now on."""
        self._handlers.append(handler)

    def _saw(self, change: Change[ReferenceGrant]) -> None:
        namespace = change.key.namespace
        self._put(change.key, change.new)
        if not self._known[namespace]:
            del self._known[namespace]
        before, after = (_granting(each) for each in (change.old, change.new))
        if before != after:
            for handler in self._handlers:
                handler(namespace)

    def _put(self, key: ObjectKey, grant: ReferenceGrant | None) -> None:
        if grant is not None and _granting(grant):
            self._known[key.namespace][key.name] = grant
        else:
            self._known[key.namespace].pop(key.name, None)


def _granting(grant: ReferenceGrant | None) -> object:
    """Return what a grant allows; None where it allows nothing."""
    if grant is None or grant.metadata.deletion_timestamp:
        return None
    return grant.spec
