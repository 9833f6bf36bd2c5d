"""What objects own in one cluster, down to Pods, read with the rights of one client.

Owners are known by their uid, so each kind is listed once in a namespace, whatever the number of
owners. What cannot be read is told at the object, and hides nothing else.
"""

import asyncio
from typing import Final

from apiserver.inventories.tree import CHILDREN
from toolkit.apply import health
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig, gvk_of, ref_of

_MOST: Final = 5_000
"""Objects of a kind that are read in a namespace."""
_PAGE: Final = 500
_AT_ONCE: Final = 8
_DEPTH: Final = 4
"""CronJob, Job, Pod is the longest chain there is."""


class Owned:
    """Reads what objects own; each kind of a namespace once."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self._lists: dict[tuple[GroupVersionKind, str], asyncio.Task[list[Json]]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def below(self, ref: ObjectRef) -> Json:
        """Return ``{health, message, resources, unread}`` of an object; nothing if it owns none."""
        if ref.gvk.group_kind not in CHILDREN:
            return {}
        try:
            async with self._turns:
                obj = await self._api.get(ref.gvk, ref.name, ref.namespace)
        except NotFoundError:
            return {}  # as ``flux tree`` shows it: the inventory names it
        except ApiError as exc:
            return {"unread": str(exc)}
        return await self._told(obj, _DEPTH)

    async def _told(self, obj: Json, depth: int) -> Json:
        found = health.assess(obj)
        told: Json = {"health": found.status.value, "message": found.message}
        kind = CHILDREN.get(gvk_of(obj).group_kind)
        if kind is None or not depth:
            return told
        try:
            children = await self._children(kind, obj)
        except ApiError as exc:
            return told | {"unread": f"{kind.kind}s cannot be read: {exc}"}
        if children:
            told["resources"] = [
                {"resource": _resource(child), **await self._told(child, depth - 1)}
                for child in children
            ]
        return told

    async def _children(self, kind: GroupVersionKind, owner: Json) -> list[Json]:
        uid, namespace = owner["metadata"]["uid"], str(dig(owner, "metadata", "namespace"))
        key = (kind, namespace)
        if key not in self._lists:
            self._lists[key] = asyncio.create_task(self._listed(*key))
        listed = await asyncio.shield(self._lists[key])
        return [obj for obj in listed if uid in _owners(obj)]

    async def _listed(self, kind: GroupVersionKind, namespace: str) -> list[Json]:
        path = (await self._api.mapper.resource(kind)).path(namespace=namespace)
        query = {"limit": str(_PAGE)}
        items: list[Json] = []
        while True:
            async with self._turns:
                page = await self._api.request("GET", path, query=query)
            items += page.get("items") or ()
            query["continue"] = str(dig(page, "metadata", "continue", default=""))
            if not query["continue"]:
                named = {"apiVersion": kind.api_version, "kind": kind.kind}
                return [{**named, **item} for item in items]
            if len(items) >= _MOST:
                raise ApiError(f"there are more than {_MOST} in namespace {namespace}")


def _resource(obj: Json) -> Json:
    ref = ref_of(obj)
    return {"kind": ref.gvk.kind, "name": str(ref), "group": ref.gvk.group}


def _owners(obj: Json) -> set[str]:
    return {str(each.get("uid")) for each in dig(obj, "metadata", "ownerReferences", default=())}
