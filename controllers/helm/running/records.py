"""Whether Helm's storage may have changed since a release was last read from it.

A record is a Secret, and the watch shows only its metadata. The writes of an action are observed
when they happen (``toolkit.helm.witness``). Other changes that the watch shows come from another
client and start a reconciliation of the release. So an interval without changes costs no request.

This module reads no record, and covers only the controller's own cluster. On other clusters the
storage is read in each reconciliation.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from controllers.helm.running.freshness import Freshness
from controllers.waking import Enqueue
from toolkit.apply.projection import older
from toolkit.kube.informer import Change
from toolkit.objects import Json, ObjectKey, dig

SELECTOR: Final = "owner=helm"
"""Label of every record (Helm ``pkg/storage/driver/secrets.go``)."""

_NAME: Final = re.compile(r"sh\.helm\.release\.v1\.(?P<release>.+)\.v[0-9]+")

Place: TypeAlias = ObjectKey
"""The namespace of the records, and the name of the release."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Secret(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_DECODER: Final = msgspec.json.Decoder(_Secret)


def version_of(raw: bytes) -> str:
    """Return the resourceVersion of a record, which is all that the informer keeps."""
    return _DECODER.decode(raw).metadata.resource_version


@dataclass(slots=True, kw_only=True)
class _Known:
    place: Place
    versions: dict[str, str] = field(default_factory=dict)
    read: bool = False
    held: list[Change[str]] | None = None


class Records:
    """The versions of all records; ``enqueue`` is called when another client changes one."""

    def __init__(self, enqueue: Enqueue, fresh: Freshness) -> None:
        self._enqueue = enqueue
        self._fresh = fresh
        self._known: dict[ObjectKey, _Known] = {}
        self._owners: defaultdict[Place, set[ObjectKey]] = defaultdict(set)
        self._present: defaultdict[Place, set[str]] = defaultdict(set)

    def follow(self, owner: ObjectKey, place: Place) -> None:
        """Set the place of the records of an owner; a new place drops the known versions."""
        known = self._known.get(owner)
        if known is None or known.place != place:
            self.forget(owner)
            self._known[owner] = _Known(place=place)
            self._owners[place].add(owner)

    def forget(self, owner: ObjectKey) -> None:
        """Drop the known versions of an owner."""
        known = self._known.pop(owner, None)
        if known is not None:
            owners = self._owners[known.place]
            owners.discard(owner)
            if not owners:
                del self._owners[known.place]

    def current(self, owner: ObjectKey) -> bool:
        """Tell whether storage is unchanged since the owner last read or wrote it."""
        known = self._known.get(owner)
        return known is not None and known.read

    def empty(self, place: Place) -> bool:
        """Tell whether the watch shows no record of a release; valid only when it has synced."""
        return not self._present.get(place)

    def since(self, place: Place) -> int:
        """Return the resourceVersion that a list of records must have reached; 0 for the newest."""
        return self._fresh.since(place)

    @contextmanager
    def acting(self, owner: ObjectKey) -> Iterator["_Seen"]:
        """Yield the observer for the answers to an action's requests.

        Events of the watch are held until the block ends, and then compared with the answers.
        Storage counts as read after the block, unless it raises.
        """
        known = self._known[owner]
        known.held, known.read = [], False
        try:
            yield _Seen(known, self._present, self._fresh)
            known.read = True
        finally:
            held, known.held = known.held, None
            for change in held:
                self._judge(owner, known, change)

    def changed(self, change: Change[str]) -> None:
        """Handle an event of the watch."""
        found = _NAME.fullmatch(change.key.name)
        if found is None:
            return
        place = Place(change.key.namespace, found["release"])
        present = self._present[place]
        if change.new is None:
            present.discard(change.key.name)
            self._fresh.gone(place, change.key.name)
        else:
            present.add(change.key.name)
        if not present:
            del self._present[place]
        for owner in tuple(self._owners.get(place, ())):
            known = self._known[owner]
            if known.held is None:
                self._judge(owner, known, change)
            else:
                known.held.append(change)

    def _judge(self, owner: ObjectKey, known: _Known, change: Change[str]) -> None:
        if not known.read:
            return
        name, seen = change.key.name, known.versions.get(change.key.name)
        if change.new is None:
            strange = seen is not None and not older(change.old or "", seen)
            known.versions.pop(name, None)
        else:
            strange = seen is None or (seen != change.new and not older(change.new, seen))
        if strange:
            known.read = False
            self._enqueue(owner, "storage")


class _Seen:
    """Records the answers to one action's requests for records."""

    METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE"})

    def __init__(
        self, known: _Known, present: Mapping[Place, Collection[str]], fresh: Freshness
    ) -> None:
        self._known = known
        self._present = present
        self._fresh = fresh

    def __call__(self, method: str, path: str, answer: Json) -> None:
        """Record the current versions of records (``toolkit.helm.witness.Seen``)."""
        name = path.rpartition("/")[2]
        if isinstance(answer.get("items"), list):
            self._known.versions = {
                str(dig(item, "metadata", "name", default="")): _version(item)
                for item in answer["items"]
            }
        elif method == "DELETE":
            present = name in self._present.get(self._known.place, ())
            version = self._known.versions.pop(name, "")
            self._fresh.drop(self._known.place, name, version, present=present)
        elif name := str(dig(answer, "metadata", "name", default="")):
            self._known.versions[name] = version = _version(answer)
            if method != "GET":
                self._fresh.wrote(self._known.place, name, version)


def _version(obj: Json) -> str:
    return str(dig(obj, "metadata", "resourceVersion", default=""))
