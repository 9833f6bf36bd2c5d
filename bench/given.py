"""What every part of the bench is prepared with, and what most of them prepare alike.

A namespace that is left behind empty, and collections that are current for as long as it is
measured. What a part fills them with is its own.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import load, work
from bench.collection import Collection
from bench.measure import Meter
from bench.work import Plan
from toolkit.kube import client
from toolkit.objects import GroupVersionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The cluster, what to measure in it and with what, and a directory for files."""

    api: client.Client
    plan: Plan
    meter: Meter
    root: Path

    @property
    def names(self) -> list[str]:
        """Return the names of the objects of each kind."""
        return load.names(self.plan.count)

    @asynccontextmanager
    async def namespace(
        self, name: str, *leftovers: tuple[GroupVersionKind, str]
    ) -> AsyncIterator[None]:
        """Make a namespace for the length of the block.

        ``leftovers`` are kinds and names of objects in it that must be gone before it.
        """
        await work.set_up(self.api, name)
        try:
            yield
        finally:
            objects = [(gvk, each, name) for gvk, each in leftovers]
            await work.clean_up(self.api, *objects, namespace=name)

    @asynccontextmanager
    async def watched(
        self, namespace: str, *kinds: GroupVersionKind
    ) -> AsyncIterator[list[Collection]]:
        """Keep the objects of some kinds current for the length of the block."""
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(Collection.watch(self.api, gvk, namespace))
                for gvk in kinds
            ]
