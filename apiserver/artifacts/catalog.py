"""All artifacts, kept up with what informers and the store's indexes tell.

One source's artifacts are put together anew whenever anything about it changes; the view finds out
whether that is a change at all. Handlers are synchronous and quick, and never fail. A thousand
Kustomizations of one source that go to its next revision are a thousand events and one change of an
artifact: who uses what is told a moment later, for all together.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from apiserver import status
from apiserver.artifacts import held as holding
from apiserver.artifacts.held import Held
from apiserver.artifacts.observed import Consumer, Source
from apiserver.artifacts.shown import shown
from apiserver.call import Call
from toolkit.artifact.index import Index
from toolkit.artifact.store import Owner
from toolkit.kube.informer import Change
from toolkit.objects import Json, ObjectKey

RESOURCE: Final = "artifacts"


class View(Protocol):
    """What is served, as ``apiserver.view.View`` keeps it."""

    ready: bool

    def put(self, obj: Json, *, revision: int) -> None:
        """Add an object or replace it."""

    def remove(self, key: ObjectKey, *, revision: int) -> None:
        """Take an object away."""

    def advance(self, revision: int) -> None:
        """Note that the backing objects are at this revision."""


class Catalog:
    """Puts artifacts into ``view``.

    ``ours`` tells whether a URL is that of our own artifact server; ``survey`` is
    called with a source whose artifact changed, or that is gone.
    """

    def __init__(
        self, view: View, *, ours: Callable[[str], bool], survey: Callable[[Owner], None]
    ) -> None:
        self._view = view
        self._ours = ours
        self._survey = survey
        self._sources: dict[Owner, Source] = {}
        self._indexes: dict[Owner, Index] = {}
        self._seen: dict[Owner, OrderedDict[str, str]] = {}
        self._held: dict[Owner, tuple[Held, ...]] = {}
        self._named: dict[ObjectKey, Held] = {}
        self._using: defaultdict[Owner, dict[tuple[str, ObjectKey], Consumer]] = defaultdict(dict)
        self._pending: dict[Owner, int] = {}
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Tell who uses what, until cancelled."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_MOMENT)
            for owner in tuple(self._pending):
                self.flush(owner)
                # With thousands of users one source takes some milliseconds.
                await asyncio.sleep(0)

    def flush(self, *owners: Owner) -> None:
        """Tell at once who uses these sources; all of them if none is named."""
        for owner in owners or tuple(self._pending):
            if owner in self._pending:
                self._refresh(owner, self._pending[owner])
        if not self._pending:
            self._wanted.clear()

    def source(self, change: Change[Source]) -> None:
        """Take a change of a source."""
        if change.new is None:
            if change.old is not None:
                self._gone(change.old)
            return
        new, owner = change.new, change.new.owner
        before = self._sources.get(owner)
        if before is not None and before.uid != new.uid:
            self._gone(before)
            before = None
        self._sources[owner] = new
        if before is None or before.artifact != new.artifact:
            self._note(new)
            self._survey(owner)
            self._refresh(owner, new.revision)
        self._view.advance(new.revision)

    def consumer(self, change: Change[Consumer]) -> None:
        """Take a change of an object that works with artifacts."""
        old, new = change.old, change.new
        whose = new or old
        if whose is None:
            return
        if old is None or new is None or old.uses != new.uses:
            identity = whose.kind, change.key
            for owner in _owners(old):
                self._using[owner].pop(identity, None)
            for owner in _owners(new):
                if new is not None:
                    self._using[owner][identity] = new
            for owner in {*_owners(old), *_owners(new)}:
                if not self._using[owner]:
                    del self._using[owner]
                self._pending[owner] = max(whose.revision, self._pending.get(owner, 0))
                self._wanted.set()
        elif not self._pending:
            self._view.advance(whose.revision)

    def indexed(self, owner: Owner, index: Index) -> None:
        """Take what the store told of a source's artifacts."""
        found = self._sources.get(owner)
        if found is not None and found.artifact is not None and self._indexes.get(owner) != index:
            self._indexes[owner] = index
            self._refresh(owner, found.revision)

    def address(self, owner: Owner) -> str:
        """Return where a source's current artifact is; nothing if it has none in our store."""
        found = self._sources.get(owner)
        artifact = found.artifact if found else None
        return artifact.url if artifact and self._ours(artifact.url) else ""

    def require(self, call: Call) -> Held:
        """Return the artifact that a request is about.

        Raises:
            StatusError: 404, there is none; 503, it is not known yet.
        """
        found = self._named.get(ObjectKey(call.namespace, call.name))
        if found is not None:
            return found
        if not self._view.ready:
            raise status.not_yet("the artifacts are not known yet; try again in a moment")
        raise status.not_found(RESOURCE, call.name)

    def siblings(self, artifact: Held) -> tuple[Held, ...]:
        """Return the artifacts of the same source."""
        return self._held.get(artifact.owner, ())

    def _note(self, source: Source) -> None:
        """Remember the revision of a digest: older stores do not."""
        offered = source.artifact
        if offered is None:
            # The store has been emptied, or its server will tell anew.
            self._indexes.pop(source.owner, None)
            self._seen.pop(source.owner, None)
            return
        seen = self._seen.setdefault(source.owner, OrderedDict())
        seen[offered.digest] = offered.revision
        seen.move_to_end(offered.digest)
        if len(seen) > _SEEN:
            seen.popitem(last=False)

    def _gone(self, source: Source) -> None:
        for memory in (self._sources, self._indexes, self._seen):
            memory.pop(source.owner, None)
        self._survey(source.owner)
        self._refresh(source.owner, source.revision)

    def _refresh(self, owner: Owner, revision: int) -> None:
        """Put one source's artifacts together, and serve them."""
        revision = max(revision, self._pending.pop(owner, 0))
        source = self._sources.get(owner)
        found = self._together(source) if source else ()
        consumers = tuple(self._using[owner].values()) if owner in self._using else ()
        # Of two digests that begin alike, which takes some luck or some effort, the first counts.
        names = {ObjectKey(owner.namespace, each.name): each for each in reversed(found)}
        for old in self._held.pop(owner, ()):
            key = ObjectKey(owner.namespace, old.name)
            if key not in names:
                self._named.pop(key, None)
                self._view.remove(key, revision=revision)
        if found:
            self._held[owner] = found
        for key, each in names.items():
            self._named[key] = each
            self._view.put(shown(each, consumers), revision=revision)

    def _together(self, source: Source) -> tuple[Held, ...]:
        ours = source.artifact is not None and self._ours(source.artifact.url)
        return holding.held(
            source, self._indexes.get(source.owner), self._seen.get(source.owner, {}), ours=ours
        )


_MOMENT: Final = 0.3
_SEEN: Final = 16
"""Revisions of a source that are remembered."""


def _owners(consumer: Consumer | None) -> Iterable[Owner]:
    if consumer is None:
        return ()
    return {
        Owner(kind=kind, namespace=namespace, name=name)
        for kind, namespace, name in (use.source for use in consumer.uses)
    }
