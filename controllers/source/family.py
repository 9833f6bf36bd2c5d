"""The controllers of all kinds of sources, which read each other's objects and wake each other.

A GitRepository can include others, and a HelmChart is made from another source. The component
creates the controllers and adds them to ``members``. The functions returned here look controllers
up when they are called, so they can be passed to a controller before the others exist.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from controllers import waking
from controllers.index import Index
from controllers.source.janitor import Janitor, unheld
from controllers.source.source import SourceObject
from controllers.source.sources import SOURCES, Row
from toolkit.artifact.store import Store
from toolkit.kube.client import Client
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey, ObjectRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The controllers by kind."""

    members: dict[str, Controller[Any]] = field(default_factory=dict)

    def lookup(self, kind: str, key: ObjectKey) -> SourceObject | None:
        """Return a source from the informer of its kind, or None."""
        return self.members[kind].informer.get(key) if kind in self.members else None

    def listing(self, kind: str, namespace: str) -> list[SourceObject]:
        """Return the sources of a kind in a namespace, from the informer."""
        items = self.members[kind].informer.items().items()
        return [obj for key, obj in items if key.namespace == namespace]

    def parents(self, row: Row) -> Callable[[Any], list[SourceObject]]:
        """Return a function that returns the sources from which an object of this kind is made."""

        def find(obj: Any) -> list[SourceObject]:
            found = [
                self.lookup(kind, ObjectKey(obj.metadata.namespace, name))
                for kind, name in row.parents(obj)
            ]
            return [each for each in found if each is not None]

        return find

    def janitors(self, client: Client, store: Store, *, parts: bool) -> Iterator[Janitor[Any]]:
        """Yield the janitors for the artifacts of objects without a finalizer, one for each kind.

        HelmCharts of HelmReleases have no finalizer, and a user may remove that of any object.
        ``parts``: the controllers see only some objects of each kind.
        """
        for controller in self.members.values():
            yield Janitor(client, store, controller.informer, leaves=unheld, parts=parts)

    def wake_children(self) -> None:
        """Reconcile objects that are made from a source when the source has a new artifact."""
        for row in SOURCES:
            child, index = self.members[row.kind.kind], Index()
            child.informer.subscribe(self._indexing(row, index))
            for parent in self.members.values():
                parent.informer.subscribe(waking.by_source(parent.gvk, child.enqueue, index))

    def _indexing(self, row: Row, index: Index) -> Callable[[Change[Any]], None]:
        def handle(change: Change[Any]) -> None:
            parents = row.parents(change.new) if change.new else ()
            index.put(
                change.key,
                (
                    ObjectRef(self.members[kind].gvk, change.key.namespace, name)
                    for kind, name in parents
                    if kind in self.members
                ),
            )

        return handle
