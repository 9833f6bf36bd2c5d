"""What the parts of the bench share: how much work, done in parallel, and when it is done."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import load
from bench.collection import Collection, Predicate
from bench.measure import Phase
from cli import errors, status
from toolkit.errors import PenstockError
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json, dig

WRITERS: Final = 16
_SOURCE_WITHIN: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much, how often, and how long to be patient; times in seconds, paces a second.

    ``seconds`` is how long a soak lasts, and ``curve`` the file that its samples are written to.
    """

    count: int
    heals: int = 50
    interval: float = 30.0
    pace: float = 200.0
    kustomize: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    patience: float = 900.0
    seconds: float = 600.0
    curve: Path | None = None


async def parallel(names: Iterable[str], write: Callable[[str], Awaitable[object]]) -> None:
    """Do something for each name, `WRITERS` at a time."""
    todo = iter(names)

    async def writer() -> None:
        for name in todo:
            await write(name)

    with errors.ungrouped():
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(writer())


async def paced(count: int, pace: float) -> AsyncIterator[int]:
    """Count, so many a second. The loop is open: what is slow does not slow the rest down."""
    began = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / pace - time.perf_counter()))
        yield number


def timed(phase: Phase, began: float, reached: Mapping[str, float]) -> None:
    """Note when each object got there, and the last one."""
    phase.wall = max(reached.values()) - began
    phase.latencies = tuple(moment - began for moment in reached.values())


def token() -> str:
    """Return a word by which a request to reconcile is known."""
    return f"bench-{time.time_ns()}"


async def ask(
    api: client.Client, gvk: GroupVersionKind, name: str, namespace: str, token: str
) -> None:
    """Ask for a reconcile."""
    body: Json = {"metadata": {"annotations": {status.REQUESTED_AT: token}}}
    await api.patch(gvk, name, namespace, body, strategy="merge")


def ready(obj: Json | None) -> bool:
    """Tell whether an object is Ready at its generation."""
    return obj is not None and status.settled(obj)


def gone(obj: Json | None) -> bool:
    """Tell whether there is no object."""
    return obj is None


def handled(token: str) -> Predicate:
    """Return what tells whether a request was the last that was handled, and well."""
    return lambda obj: ready(obj) and dig(obj or {}, "status", "lastHandledReconcileAt") == token


async def fetched(sources: Collection, name: str) -> None:
    """Wait until a source is Ready.

    Raises:
        PenstockError: it is not within two minutes.
    """
    await sources.all([name], ready, seconds=_SOURCE_WITHIN, what="the source")


async def set_up(api: client.Client, namespace: str) -> None:
    """Make a namespace."""
    body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await api.apply(body, manager="bench")


async def clean_up(
    api: client.Client, *objects: tuple[GroupVersionKind, str, str], namespace: str
) -> None:
    """Leave a cluster that is not ours as it was; what still runs there ends in its own time."""
    await delete(api, *objects, (load.NAMESPACES, namespace, ""))


async def delete(api: client.Client, *objects: tuple[GroupVersionKind, str, str]) -> None:
    """Delete what is still there of these kinds, names and namespaces."""
    for gvk, name, where in objects:
        with contextlib.suppress(PenstockError):
            await api.delete(gvk, name, where)
