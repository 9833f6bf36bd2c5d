"""Kustomizations that build the same objects as another one, or a part of them.

The index is by all inputs of a build except the path, and then by the path. So a review compares
only paths above and below its own, and not all Kustomizations of the source.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from toolkit.kube.informer import Change
from toolkit.multimap import MultiMap
from toolkit.objects import Json, ObjectKey, key_of
from webhooks.services import Cache
from webhooks.validation import circles
from webhooks.validation.circles import Build, Seen

_MOST: Final = 12
_DEEPEST: Final = 64
"""Directories of a path; a deeper one is compared with the same path only (``artifact.limits``)."""


class Builds:
    """The paths of Kustomizations, by the digest of the other inputs of their builds."""

    def __init__(self, cache: Cache[Seen]) -> None:
        self._users: MultiMap[tuple[bytes, str], ObjectKey] = MultiMap()
        self._paths: dict[bytes, list[str]] = {}
        """The paths of each digest, sorted."""
        cache.subscribe(self._saw)

    def others(self, obj: Json) -> Iterator[tuple[ObjectKey, str]]:
        """Yield the Kustomizations that build the same objects, and the path of the common part."""
        build, own = circles.build(obj), key_of(obj)
        if build is None:
            return
        found = (
            (key, what)
            for path, what in self._related(build)
            for key in self._users.of((build.ground, path))
            if key != own
        )
        yield from sorted(found)[:_MOST]

    def _related(self, build: Build) -> Iterator[tuple[str, str]]:
        """Yield paths that share objects with that of a build, and the common part.

        The root of a source is above all paths, and usually selects files by a
        ``kustomization.yaml``, so it does not count.
        """
        yield build.path, "the same"
        if build.path.count("/") > _DEEPEST:
            return
        above = build.path
        while above := above.rpartition("/")[0]:
            yield above, f"'.{above}', of which this is a part"
        if not build.path:
            return
        below, paths = f"{build.path}/", self._paths.get(build.ground, [])
        for index in range(bisect_left(paths, below), len(paths)):
            if not paths[index].startswith(below):
                return
            yield paths[index], f"'.{paths[index]}', a part of this"

    def _saw(self, change: Change[Seen]) -> None:
        old = change.old.build if change.old else None
        new = change.new.build if change.new else None
        if old == new:
            return  # most changes are of a status
        if old is not None:
            self._drop(old, change.key)
        if new is not None:
            place = (new.ground, new.path)
            if place not in self._users:
                insort(self._paths.setdefault(new.ground, []), new.path)
            self._users.add(place, change.key)

    def _drop(self, old: Build, key: ObjectKey) -> None:
        place = (old.ground, old.path)
        self._users.discard(place, key)
        if place in self._users:
            return
        paths = self._paths[old.ground]
        del paths[bisect_left(paths, old.path)]
        if not paths:
            del self._paths[old.ground]
