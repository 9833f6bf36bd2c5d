"""Sources of log lines: files of a local ``penstock up``, or pods of the cluster."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from cli import errors
from cli.installing import flux
from toolkit.kube import client
from toolkit.kube.errors import ApiError
from toolkit.objects import GroupVersionKind, Json, dig, key_of

CONTAINER: Final = "manager"
_LOOK_AGAIN: Final = 0.2
_DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")
_POD: Final = GroupVersionKind("", "v1", "Pod")
_ENDED: Final = frozenset({"Failed", "Succeeded"})

Source: TypeAlias = AsyncIterator["str | errors.FailedError"]
"""Lines, and at the end perhaps the reason why there are no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The part of each log: the last lines (-1 for all), younger lines, and future lines.

    ``since`` is in seconds, ``since_time`` is RFC 3339; both are for pods.
    """

    tail: int = -1
    follow: bool = False
    since: float | None = None
    since_time: str = ""

    def query(self) -> Mapping[str, str]:
        """Return the query for the API server (``PodLogOptions``)."""
        asked = {"tailLines": str(self.tail)} if self.tail >= 0 else {}
        if self.follow:
            asked["follow"] = "true"
        if self.since is not None:
            asked["sinceSeconds"] = str(max(1, round(self.since)))
        if self.since_time:
            asked["sinceTime"] = self.since_time
        return asked


async def of_file(path: Path, extent: Extent) -> Source:
    """Yield the last lines of a file, then appended lines."""
    tail = extent.tail
    with path.open(errors="replace") as stream:
        lines = await asyncio.to_thread(stream.readlines)
        for line in lines if tail < 0 else lines[len(lines) - min(tail, len(lines)) :]:
            yield line
        partial = ""
        while extent.follow:
            # Growth of a file causes no event (inotify needs a library); polling is cheap.
            partial += stream.read()
            *whole, partial = partial.split("\n")
            for line in whole:
                yield line
            await asyncio.sleep(_LOOK_AGAIN)


async def pods(api: client.Client, namespace: str) -> list[Json]:
    """Return the pods of the Deployments that are part of Flux or Penstock, without ended ones.

    Raises:
        UsageError: there is no such Deployment, or none has a pod.
    """
    deployments = await api.list(_DEPLOYMENT, namespace, label_selector=flux.SELECTOR)
    place = f"namespace {namespace}" if namespace else "any namespace"
    if not deployments:
        raise errors.UsageError(
            f"no Deployment labelled {flux.SELECTOR} in {place}, and no local `penstock up` runs "
            "in this state directory; name one with --state"
        )
    found: list[Json] = []
    for deployment in deployments:
        labels = dig(deployment, "spec", "selector", "matchLabels", default={})
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found += await api.list(_POD, key_of(deployment).namespace, label_selector=selector)
    found = [pod for pod in found if dig(pod, "status", "phase", default="") not in _ENDED]
    if not found:
        raise errors.UsageError(
            f"no Deployment labelled {flux.SELECTOR} in {place} has a pod: see `penstock check`"
        )
    return found


async def of_pod(api: client.Client, pod: Json, extent: Extent) -> Source:
    """Give the log lines of a pod's ``manager`` container, or of its only one."""
    key = key_of(pod)
    query = {"container": _container(pod), **extent.query()}
    path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/log"
    rest = b""
    try:
        async with api.watch(path, query=query, accept="*/*") as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")
    except ApiError as exc:
        # The others' logs can be read all the same.
        yield errors.FailedError(f"cannot read the log of Pod {key}: {exc}")
    if rest:
        yield rest.decode(errors="replace")


def _container(pod: Json) -> str:
    names = [str(c["name"]) for c in dig(pod, "spec", "containers", default=())]
    return CONTAINER if CONTAINER in names or not names else names[0]


async def merged(sources: list[Source]) -> Source:
    """Give the lines of all sources as they come."""
    queue: asyncio.Queue[str | errors.FailedError | None] = asyncio.Queue(maxsize=1000)

    async def pump(source: Source) -> None:
        async for line in source:
            await queue.put(line)
        await queue.put(None)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pump(source)) for source in sources]
        left = len(tasks)
        while left:
            line = await queue.get()
            if line is None:
                left -= 1
            else:
                yield line
