"""Where log lines come from: files of a local ``penstock up``, or pods of the cluster."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from cli import errors
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json, dig, key_of

PART_OF: Final = "app.kubernetes.io/part-of=flux"
CONTAINER: Final = "manager"
_LOOK_AGAIN: Final = 0.2
_DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")
_POD: Final = GroupVersionKind("", "v1", "Pod")


async def of_file(path: Path, *, tail: int, follow: bool) -> AsyncIterator[str]:
    """Give the last ``tail`` lines of a file (all for -1), then what is appended to it."""
    with path.open(errors="replace") as stream:
        lines = await asyncio.to_thread(stream.readlines)
        for line in lines if tail < 0 else lines[len(lines) - min(tail, len(lines)) :]:
            yield line
        partial = ""
        while follow:
            # A file tells nobody that it grew (inotify needs a library); looking is cheap.
            partial += stream.read()
            *whole, partial = partial.split("\n")
            for line in whole:
                yield line
            await asyncio.sleep(_LOOK_AGAIN)


async def pods(api: client.Client, namespace: str) -> list[Json]:
    """Return the pods of the Deployments that are part of Flux or Penstock.

    Raises:
        UsageError: there is no such Deployment.
    """
    deployments = await api.list(_DEPLOYMENT, namespace, label_selector=PART_OF)
    if not deployments:
        raise errors.UsageError(
            f"no Deployment labelled {PART_OF} in {namespace or 'any namespace'}, and no local "
            "`penstock up` runs in this state directory; name one with --state"
        )
    found: list[Json] = []
    for deployment in deployments:
        labels = dig(deployment, "spec", "selector", "matchLabels", default={})
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found += await api.list(_POD, key_of(deployment).namespace, label_selector=selector)
    return found


async def of_pod(api: client.Client, pod: Json, *, tail: int, follow: bool) -> AsyncIterator[str]:
    """Give the log lines of a pod's ``manager`` container, or of its only one."""
    key = key_of(pod)
    query = {"container": _container(pod)}
    if tail >= 0:
        query["tailLines"] = str(tail)
    if follow:
        query["follow"] = "true"
    path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/log"
    rest = b""
    async with api.watch(path, query=query, accept="*/*") as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _container(pod: Json) -> str:
    names = [str(c["name"]) for c in dig(pod, "spec", "containers", default=())]
    return CONTAINER if CONTAINER in names or not names else names[0]


async def merged(sources: list[AsyncIterator[str]]) -> AsyncIterator[str]:
    """Give the lines of all sources as they come."""
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1000)

    async def pump(source: AsyncIterator[str]) -> None:
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
