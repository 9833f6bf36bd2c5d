"""All artifacts, kept up to date from informers and from the store's indexes.

The artifacts of a source are computed again whenever something about it changes; the view detects
whether they differ. Handlers are synchronous and fast, and never fail. If a thousand Kustomizations
of one source move to its next revision, these are a thousand events, but one change of an artifact:
its users are updated a moment later, all together.
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
    """The view that serves the artifacts (``apiserver.view.View``)."""

    ready: bool

    def put(self, obj: Json, *, revision: int) -> None:
        """Add an object or replace it."""

    def remove(self, key: ObjectKey, *, revision: int) -> None:
        """Take an object away."""

    def advance(self, revision: int) -> None:
        """Note that the backing objects are at this revision."""


class Catalog:
    """Puts artifacts into ``view``.

    ``ours`` tells whether a URL is one of our artifact server. ``survey`` is called with a source
    whose artifact has changed, or that was deleted.
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
        """Update the users of artifacts until cancelled."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_MOMENT)
            for owner in tuple(self._pending):
                self.flush(owner)
                # With thousands of users one source takes some milliseconds.
                await asyncio.sleep(0)

    def flush(self, *owners: Owner) -> None:
        """Update the users of these sources at once; without arguments, of all sources."""
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
        """Store the index of a source's artifacts."""
        found = self._sources.get(owner)
        if found is not None and found.artifact is not None and self._indexes.get(owner) != index:
            self._indexes[owner] = index
            self._refresh(owner, found.revision)

    def address(self, owner: Owner) -> str:
        """Return the URL of a source's current artifact; empty if our store has none."""
        found = self._sources.get(owner)
        artifact = found.artifact if found else None
        return artifact.url if artifact and self._ours(artifact.url) else ""

    def require(self, call: Call) -> Held:
        """Return the artifact of a request.

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
            # The store was emptied, or its server will return another index.
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
        # If two digests have the same beginning, the first one counts.
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
