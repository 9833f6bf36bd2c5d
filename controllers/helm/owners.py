"""Which HelmRelease owns a release if several name the same one.

Two HelmReleases that manage one release would upgrade it in turn without end, because each finds
the record of the other. So one HelmRelease owns the release, and the others fail with an error. The
order is:

1. A HelmRelease in the namespace of the records, so that a tenant cannot take a name in the
   namespace of another.
2. The HelmRelease that made the release.
3. The oldest HelmRelease.

Everybody who may write HelmReleases in some namespace can name any release of any namespace. So a
HelmRelease of a third namespace counts only once it has made the release, which takes permissions
in the namespace of the records. Otherwise it could keep a release from being installed, and keep
it installed when its owner gets another name.

A suspended HelmRelease owns no release. So suspending it hands its release over, as in Flux.

Two kubeconfigs for the same cluster count as two clusters, and a controller of a shard sees only
the objects of its shard.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from controllers.helm.deciding import snapshots, targets
from controllers.waking import Enqueue
from crds.helm import HelmRelease
from toolkit.errors import StalledError
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey

_TRIGGER: Final = "release"


class ReleaseConflictError(StalledError):
    """The release belongs to another HelmRelease."""

    default_reason = "ReleaseConflict"


class _Place(NamedTuple):
    """Where the records of a release are; ``cluster`` is empty for the controller's own cluster."""

    cluster: str
    namespace: str
    name: str


class Owners:
    """An index of HelmReleases by release; ``enqueue`` wakes those that may own it now."""

    def __init__(self, lookup: Callable[[ObjectKey], HelmRelease | None], enqueue: Enqueue) -> None:
        self._lookup = lookup
        self._enqueue = enqueue
        self._named: defaultdict[_Place, set[ObjectKey]] = defaultdict(set)

    def require(self, obj: HelmRelease) -> None:
        """Require that the HelmRelease owns its release.

        Raises:
            ReleaseConflictError: the release belongs to another HelmRelease.
        """
        place = _place(obj)
        owner = self._first(place, obj)
        if owner is not None and owner is not obj:
            # The message does not disclose the names of objects in other namespaces.
            near = owner.metadata.namespace == obj.metadata.namespace
            other = f"HelmRelease '{_key(owner)}'" if near else "a HelmRelease of another namespace"
            raise ReleaseConflictError(
                f"release '{place.name}' in namespace '{place.namespace}' belongs to {other}:"
                " give this one another spec.releaseName or spec.storageNamespace, or suspend or"
                " delete the other"
            )

    def knows(self, obj: HelmRelease) -> bool:
        """Tell whether the object may know who owns its release, without a read of the records.

        The answer discloses which releases there are in another namespace. There the account of
        the object must be able to read the records, or have written some.
        """
        place = _place(obj)
        return place.namespace == obj.metadata.namespace or _released(obj) == place

    def successor(self, obj: HelmRelease) -> ObjectKey | None:
        """Return the other HelmRelease that now owns the release of this one, if there is one.

        Such a release must not be uninstalled.
        """
        place = _released(obj)
        owner = self._first(place, obj) if place else None
        return _key(owner) if owner is not None and owner is not obj else None

    def changed(self, change: Change[HelmRelease]) -> None:
        """Handle an event of the informer of HelmReleases."""
        before = _place(change.old) if change.old else None
        after = _place(change.new) if change.new else None
        if before and before != after:
            self._named[before].discard(change.key)
            if not self._named[before]:
                del self._named[before]
        if after:
            self._named[after].add(change.key)
        if before and (before != after or _suspended(change)):
            for key in self._named.get(before, set()) - {change.key}:
                self._enqueue(key, _TRIGGER)

    def _first(self, place: _Place, obj: HelmRelease) -> HelmRelease | None:
        """Return the owner among the HelmReleases that name the release, including ``obj``."""
        keys = self._named.get(place, set()) - {_key(obj)}
        near = {place.namespace, obj.metadata.namespace}
        named = [
            other
            for other in map(self._lookup, keys)
            if other and not other.spec.suspend
            if other.metadata.namespace in near or _released(other) == place
        ]
        own = [obj] if _place(obj) == place else []
        return min([*own, *named], key=_rank, default=None)


def _suspended(change: Change[HelmRelease]) -> bool:
    was = change.old is not None and change.old.spec.suspend
    return change.new is not None and change.new.spec.suspend and not was


def _place(obj: HelmRelease) -> _Place:
    return _Place(_cluster(obj), targets.storage_namespace(obj), targets.release_name(obj))


def _released(obj: HelmRelease) -> _Place | None:
    """Return the place of the last release that the object made."""
    latest = snapshots.latest(obj.status.history)
    if latest is None:
        return None
    return _Place(_cluster(obj), obj.status.storage_namespace, latest.name)


def _cluster(obj: HelmRelease) -> str:
    said = obj.spec.kube_config
    return f"{obj.metadata.namespace} {msgspec.json.encode(said).decode()}" if said else ""


def _rank(obj: HelmRelease) -> tuple[bool, bool, str, ObjectKey]:
    """Return the sort key of a HelmRelease: the owner of the release has the lowest."""
    return (
        obj.metadata.namespace != targets.storage_namespace(obj),
        _released(obj) != _place(obj),
        obj.metadata.creation_timestamp,
        _key(obj),
    )


def _key(obj: HelmRelease) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)
