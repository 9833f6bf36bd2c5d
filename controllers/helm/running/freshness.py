"""How old a list of records may be that an action asks for (``toolkit.helm.recent``).

It must show what this process has written, and what its watch has shown. Names of records prevent
that two clients write one revision, so what another client writes meanwhile is refused later, as it
would be right after the list.
"""

from collections import defaultdict
from collections.abc import Callable

from toolkit.objects import ObjectKey


class Freshness:
    """The resourceVersions of records that were written, and the records that were deleted.

    ``shown`` is the resourceVersion up to which the watch has shown all, 0 if that is not known.
    Places are namespaces of records with the name of the release.
    """

    def __init__(self, shown: Callable[[], int]) -> None:
        self._shown = shown
        self._newest = 0
        self._dropped: defaultdict[ObjectKey, set[str]] = defaultdict(set)

    def since(self, place: ObjectKey) -> int:
        """Return the resourceVersion that a list must have reached; 0 if it must be the newest.

        The answer to a deletion has none, so nothing is known until the watch shows the deletion.
        """
        shown = self._shown()
        return 0 if place in self._dropped or not shown else max(shown, self._newest)

    def wrote(self, place: ObjectKey, name: str, version: str) -> None:
        """Note a record as the API server has answered it: what came before is older."""
        self._newest = max(self._newest, _number(version))
        self.gone(place, name)

    def drop(self, place: ObjectKey, name: str, version: str, *, present: bool) -> None:
        """Note a deletion of a record, unless the watch has shown it already.

        ``present`` tells whether the watch shows the record, ``version`` is its last one.
        """
        if present or _number(version) > self._shown():
            self._dropped[place].add(name)

    def gone(self, place: ObjectKey, name: str) -> None:
        """Note that the watch has shown a deletion."""
        if names := self._dropped.get(place):
            names.discard(name)
            if not names:
                del self._dropped[place]


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
