"""Whether Helm's storage may have changed since a release was last read from it.

A record is a Secret, which a watch shows without its content. What an action writes is seen as it
writes it (``toolkit.helm.witness``); what the watch shows beyond that was done by somebody else,
and wakes the release. So an interval without changes costs no request.

It reads no record, and knows the cluster that we run on alone: elsewhere storage is read each time.
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
"""Namespace of the records, and name of the release."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Secret(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_DECODER: Final = msgspec.json.Decoder(_Secret)


def version_of(raw: bytes) -> str:
    """Return the resourceVersion of a record: all that the watch keeps of it."""
    return _DECODER.decode(raw).metadata.resource_version


@dataclass(slots=True, kw_only=True)
class _Known:
    place: Place
    versions: dict[str, str] = field(default_factory=dict)
    read: bool = False
    held: list[Change[str]] | None = None


class Records:
    """What is known of the records of every release; ``enqueue`` is told of strange changes."""

    def __init__(self, enqueue: Enqueue, fresh: Freshness) -> None:
        self._enqueue = enqueue
        self._fresh = fresh
        self._known: dict[ObjectKey, _Known] = {}
        self._owners: defaultdict[Place, set[ObjectKey]] = defaultdict(set)
        self._present: defaultdict[Place, set[str]] = defaultdict(set)

    def follow(self, owner: ObjectKey, place: Place) -> None:
        """Say where the records of an owner are; elsewhere than before, nothing is known."""
        known = self._known.get(owner)
        if known is None or known.place != place:
            self.forget(owner)
            self._known[owner] = _Known(place=place)
            self._owners[place].add(owner)

    def forget(self, owner: ObjectKey) -> None:
        """Drop what is known for an owner."""
        known = self._known.pop(owner, None)
        if known is not None:
            owners = self._owners[known.place]
            owners.discard(owner)
            if not owners:
                del self._owners[known.place]

    def current(self, owner: ObjectKey) -> bool:
        """Tell whether storage is as it was when the owner last read or wrote it."""
        known = self._known.get(owner)
        return known is not None and known.read

    def doubt(self, owner: ObjectKey) -> None:
        """Have storage read again."""
        if known := self._known.get(owner):
            known.read = False

    def empty(self, place: Place) -> bool:
        """Tell whether the watch, once it has synced, shows no record of a release."""
        return not self._present.get(place)

    def since(self, place: Place) -> int:
        """Return the resourceVersion that a list of them must have reached; 0 for the newest."""
        return self._fresh.since(place)

    @contextmanager
    def acting(self, owner: ObjectKey) -> Iterator["_Seen"]:
        """Give what takes the answers of an action; the watch is judged by them after the block.

        Storage counts as read after it, unless the block fails.
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
        """Take an event of the watch."""
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
    """Takes the answers to the requests of one action about its records."""

    METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE"})

    def __init__(
        self, known: _Known, present: Mapping[Place, Collection[str]], fresh: Freshness
    ) -> None:
        self._known = known
        self._present = present
        self._fresh = fresh

    def __call__(self, method: str, path: str, answer: Json) -> None:
        """Note which version a record has by now (``toolkit.helm.witness.Seen``)."""
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
