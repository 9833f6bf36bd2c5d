"""The objects that objects own in one cluster, down to Pods, read with one client.

If they cannot be read, the reason is shown at the object, and hides nothing else.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from toolkit.apply import health
from toolkit.apply.owned import growing
from toolkit.apply.owned.growing import Branch
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import Json, ObjectRef, dig

_AT_ONCE: Final = 8


class Owned:
    """Reads objects, and the objects that they own."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def below(self, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Json]:
        """Return ``{health, message, children, unread}`` of each object that may own others.

        Children are nodes as ``toolkit.apply.owned.growing`` makes them. An object that does not
        exist is left out, as ``flux tree`` shows it: the inventory names it.
        """
        owners = [ref for ref in refs if ref.gvk.group_kind in growing.CHILDREN]
        read = await asyncio.gather(*map(self._read, owners))
        found = {ref: node for ref, (node, _) in zip(owners, read, strict=True) if node}
        branches = [branch for _, branch in read if branch is not None]
        await growing.grow(self._api, branches, self._turns)
        return found

    async def _read(self, ref: ObjectRef) -> tuple[Json, Branch | None]:
        try:
            async with self._turns:
                obj = await self._api.get(ref.gvk, ref.name, ref.namespace)
        except NotFoundError:
            return {}, None
        except ApiError as exc:
            return {"unread": str(exc)}, None
        judged = health.assess(obj)
        node: Json = {"namespace": ref.namespace, "health": judged.status.value}
        node["message"] = judged.message
        uid = str(dig(obj, "metadata", "uid", default=""))
        return node, Branch(kind=ref.gvk.group_kind, uid=uid, node=node)
