"""Which objects use which others, both ways: a change costs what it concerns, not a scan."""

from collections import defaultdict
from collections.abc import Iterable

from toolkit.objects import ObjectKey, ObjectRef


class Index:
    """What each object of one kind uses; kept from informer events."""

    def __init__(self) -> None:
        self._users: defaultdict[ObjectRef, set[ObjectKey]] = defaultdict(set)
        self._uses: dict[ObjectKey, tuple[ObjectRef, ...]] = {}
        """Without repeats; tuples, because a set of one takes 216 bytes."""

    def users(self, ref: ObjectRef) -> frozenset[ObjectKey]:
        """Return who uses the object."""
        return frozenset(self._users.get(ref, ()))

    def everybody(self) -> tuple[ObjectKey, ...]:
        """Return all that use anything."""
        return tuple(self._uses)

    def put(self, key: ObjectKey, used: Iterable[ObjectRef]) -> None:
        """Replace what ``key`` uses; nothing means: forget it."""
        new = frozenset(used)
        for gone in frozenset(self._uses.get(key, ())) - new:
            self._users[gone].discard(key)
            if not self._users[gone]:
                del self._users[gone]
        for ref in new:
            self._users[ref].add(key)
        if new:
            self._uses[key] = tuple(new)
        else:
            self._uses.pop(key, None)
