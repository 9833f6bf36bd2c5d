"""A collection as a watch shows it, and the moment at which all of its objects satisfy something.

Only the object that changed is looked at again, so watching a thousand costs the machine that is
being measured next to nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager

from cli import errors, watching
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json, key_of

Predicate = Callable[[Json | None], bool]


class Collection:
    """The objects of one kind in one namespace by name, current as of the last watch event."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self._listeners: list[Callable[[str, Json | None], None]] = []

    @classmethod
    @asynccontextmanager
    async def watch(
        cls, api: client.Client, gvk: GroupVersionKind, namespace: str
    ) -> AsyncIterator["Collection"]:
        """Keep a collection current until the block ends."""
        made = cls()
        task = asyncio.create_task(made._follow(api, gvk, namespace))
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, api: client.Client, gvk: GroupVersionKind, namespace: str) -> None:
        async with aclosing(watching.changes(api, gvk, namespace)) as changes:
            async for change in changes:
                self._notice(change)

    def _notice(self, change: watching.Change) -> None:
        name = key_of(change.object).name
        if change.type == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = change.object
        for listener in tuple(self._listeners):
            listener(name, self.objects.get(name))

    async def all(
        self, names: Iterable[str], satisfied: Predicate, *, seconds: float, what: str
    ) -> Mapping[str, float]:
        """Wait until every named object satisfies; return when each did (``perf_counter``).

        A missing object is given to ``satisfied`` as ``None``.

        Raises:
            DeadlineError: some did not within ``seconds``; the message names one of them.
        """
        now = time.perf_counter()
        reached = {name: now for name in names if satisfied(self.objects.get(name))}
        pending = set(names) - reached.keys()
        done = asyncio.Event()

        def listen(name: str, obj: Json | None) -> None:
            if name in pending and satisfied(obj):
                pending.discard(name)
                reached[name] = time.perf_counter()
                if not pending:
                    done.set()

        self._listeners.append(listen)
        try:
            if pending:
                await asyncio.wait_for(done.wait(), seconds)
        except TimeoutError as exc:
            raise errors.DeadlineError(self._unfinished(pending, seconds, what)) from exc
        finally:
            self._listeners.remove(listen)
        return reached

    def _unfinished(self, pending: set[str], seconds: float, what: str) -> str:
        name = min(pending)
        obj = self.objects.get(name) or {}
        conditions = (obj.get("status") or {}).get("conditions") or ()
        ready = next((row.get("message") for row in conditions if row["type"] == "Ready"), "none")
        return (
            f"{what}: {len(pending)} left after {seconds:g}s, "
            f"{name} among them; its Ready message: {ready}"
        )
