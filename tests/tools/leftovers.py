"""What tests of the API server leave behind of our kinds, removed before controllers start.

Nothing else deletes it, as the control plane ends with the run. A whole stack on the same control
plane would reconcile hundreds of objects that nobody looks at.
"""

import asyncio

import crds
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind

_TOGETHER = 16


async def remove(admin: Client) -> None:
    """Delete all objects of our kinds, whatever finalizers they have."""
    limit = asyncio.Semaphore(_TOGETHER)

    async def one(gvk: GroupVersionKind, name: str, namespace: str) -> None:
        freed = {"metadata": {"finalizers": None}}
        async with limit:
            try:
                await admin.patch(gvk, name, namespace, freed, strategy="merge")
                await admin.delete(gvk, name, namespace)
            except NotFoundError:
                return

    for kind in crds.KINDS:
        try:
            found = await admin.list(GroupVersionKind(*kind.gvk))
        except NoMatchError:
            continue  # no test has installed it
        places = [(obj["metadata"]["name"], obj["metadata"].get("namespace", "")) for obj in found]
        await asyncio.gather(*(one(GroupVersionKind(*kind.gvk), *place) for place in places))
