"""How old a list of records may be when an action requests it (``toolkit.helm.recent``).

The list must contain all writes of this process, and all changes that its watch has shown. It may
miss a later write of another client. That is safe: revisions are part of the names of records, so
the API server refuses the second of two clients that create the same revision.
"""

from collections import defaultdict
from collections.abc import Callable

from toolkit.objects import ObjectKey


class Freshness:
    """The newest resourceVersion of written records, and the names of deleted records.

    ``shown`` returns the resourceVersion up to which the watch has shown all changes; 0 if it is
    unknown. A place is the namespace of the records and the name of the release.
    """

    def __init__(self, shown: Callable[[], int]) -> None:
        self._shown = shown
        self._newest = 0
        self._dropped: defaultdict[ObjectKey, set[str]] = defaultdict(set)

    def since(self, place: ObjectKey) -> int:
        """Return the resourceVersion that a list must have reached; 0 if it must be the newest.

        The answer to a deletion has no resourceVersion. So the result is 0 until the watch shows
        the deletion.
        """
        shown = self._shown()
        return 0 if place in self._dropped or not shown else max(shown, self._newest)

    def wrote(self, place: ObjectKey, name: str, version: str) -> None:
        """Record the version of a written record; this ends an earlier deletion of its name."""
        self._newest = max(self._newest, _number(version))
        self.gone(place, name)

    def drop(self, place: ObjectKey, name: str, version: str, *, present: bool) -> None:
        """Record a deletion, unless the watch has already shown it.

        ``present`` tells whether the watch still shows the record. ``version`` is the last known
        resourceVersion of the record.
        """
        if present or _number(version) > self._shown():
            self._dropped[place].add(name)

    def gone(self, place: ObjectKey, name: str) -> None:
        """Record that the watch has shown a deletion."""
        if names := self._dropped.get(place):
            names.discard(name)
            if not names:
                del self._dropped[place]


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
