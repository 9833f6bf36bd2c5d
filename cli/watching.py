"""List and watch, as a stream of objects: what ``--watch`` prints and what waiting waits on.

A command wants to see one collection for some seconds, so this is a plain generator: no cache, no
subscribers (``toolkit.kube.informer`` has both). It reconnects until its caller stops it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cli import errors, session
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

if TYPE_CHECKING:
    from toolkit.kube import client

_AGAIN_AFTER: Final = 0.5
_SERVER_SIDE_SECONDS: Final = "300"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """ADDED, MODIFIED or DELETED, and the object."""

    type: str
    object: Json


async def changes(  # noqa: PLR0913 - what to follow, and how
    api: "client.Client",
    gvk: GroupVersionKind,
    namespace: str = "",
    *,
    name: str = "",
    label_selector: str = "",
    patient: bool = True,
) -> AsyncGenerator[Change, None]:
    """Yield the existing objects, then every change, without an end.

    After a lost connection it lists again and yields only new changes. Unless it is ``patient``,
    the first list must succeed.

    Raises:
        UnreachableError: it does not.
    """
    query = {"labelSelector": label_selector}
    if name:
        query["fieldSelector"] = f"metadata.name={name}"
    seen: dict[str, Json] = {}
    while True:
        try:
            path = (await api.mapper.resource(gvk)).path(namespace=namespace)
            page = await api.request("GET", path, query=query)
            patient = True
            for change in _compared(seen, page, gvk):
                yield change
            version = str(dig(page, "metadata", "resourceVersion", default=""))
            async with aclosing(_events(api, path, query | {"resourceVersion": version})) as events:
                async for change in events:
                    _remember(seen, change)
                    yield change
        except (kube_errors.UnreachableError, kube_errors.GoneError):
            if not patient:
                raise
            await asyncio.sleep(_AGAIN_AFTER)


def _compared(seen: dict[str, Json], page: Json, gvk: GroupVersionKind) -> list[Change]:
    """Return how a new list differs from the yielded objects, and store it."""
    items = {str(dig(item, "metadata", "uid")): item for item in page.get("items") or ()}
    found = [Change(type="DELETED", object=old) for uid, old in seen.items() if uid not in items]
    for uid, item in items.items():
        old = seen.get(uid)
        if old is None or _version(old) != _version(item):
            whole = {"apiVersion": gvk.api_version, "kind": gvk.kind, **item}
            found.append(Change(type="MODIFIED" if old else "ADDED", object=whole))
    for change in found:
        _remember(seen, change)
    return found


def _remember(seen: dict[str, Json], change: Change) -> None:
    uid = str(dig(change.object, "metadata", "uid"))
    if change.type == "DELETED":
        seen.pop(uid, None)
    else:
        seen[uid] = change.object


def _version(obj: Json) -> str:
    return str(dig(obj, "metadata", "resourceVersion"))


async def _events(
    api: "client.Client", path: str, query: dict[str, str]
) -> AsyncGenerator[Change, None]:
    """Follow one watch request to its end."""
    query = {k: v for k, v in query.items() if v}
    query |= {"watch": "true", "timeoutSeconds": _SERVER_SIDE_SECONDS}
    rest = b""
    async with api.watch(path, query=query, accept="application/json") as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise kube_errors.from_status(int(status.get("code") or 500), status)
                yield Change(type=event["type"], object=event["object"])


async def until(
    opened: session.Session,
    ref: ObjectRef,
    verdict: Callable[[Json | None], bool],
    *,
    what: str,
) -> Json | None:
    """Return the object (None if deleted) when ``verdict`` returns true.

    ``verdict`` may raise to end the wait.

    Raises:
        DeadlineError: it takes longer than the session's timeout; ``what`` starts the message.
    """
    latest: Json | None = None
    stream = changes(opened.api, ref.gvk, ref.namespace, name=ref.name)
    try:
        async with asyncio.timeout(opened.left), aclosing(stream):
            async for change in stream:
                latest = None if change.type == "DELETED" else change.object
                if verdict(latest):
                    return latest
    except TimeoutError as exc:
        raise errors.DeadlineError(f"{what} within {opened.timeout:g}s{_last(latest)}") from exc
    raise AssertionError("the stream of changes has no end")


async def gone(opened: session.Session, ref: ObjectRef) -> None:
    """Return when there is no such object.

    Raises:
        DeadlineError: it still exists at the end of the session's timeout.
    """
    path = (await opened.api.mapper.resource(ref.gvk)).path(namespace=ref.namespace)
    query = {"fieldSelector": f"metadata.name={ref.name}"}
    try:
        async with asyncio.timeout(opened.left):
            while True:
                try:
                    found = await opened.api.get(ref.gvk, ref.name, ref.namespace)
                    await _deleted(opened.api, path, query, found)
                except kube_errors.NotFoundError:
                    return
                except (kube_errors.UnreachableError, kube_errors.GoneError):
                    await asyncio.sleep(_AGAIN_AFTER)
    except TimeoutError as exc:
        raise errors.DeadlineError(
            f"{ref.gvk.kind} {ref.key} was not gone within {opened.timeout:g}s"
        ) from exc


async def _deleted(api: "client.Client", path: str, query: dict[str, str], found: Json) -> None:
    """Return when the object, or the watch, has ended."""
    async with aclosing(_events(api, path, query | {"resourceVersion": _version(found)})) as events:
        async for change in events:
            if change.type == "DELETED":
                return


def _last(obj: Json | None) -> str:
    for row in dig(obj or {}, "status", "conditions", default=()):
        if row.get("type") == "Ready":
            return f"; its last message was: {row.get('message')}"
    return ""
