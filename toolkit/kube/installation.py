"""Facts of the installation: the owner of a process's objects, and whether its Service is ready.

Objects that one replica sets up for the API server (``settling``) are owned by the ClusterRole of
the process, so that garbage collection removes them when Penstock is uninstalled. They are set up
only when the Service of the process leads to a replica. The caller decides what is set up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

logger = logging.getLogger(__name__)

_ROLE: Final = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
_SLICE: Final = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")
_PAUSE: Final = 0.5


async def owner(client: Client, cluster_role: str) -> list[Json]:
    """Return the reference to the ClusterRole; none where it is not installed."""
    try:
        role = await client.get(_ROLE, cluster_role)
    except NotFoundError:
        return []
    return [
        {
            "apiVersion": _ROLE.api_version,
            "kind": _ROLE.kind,
            "name": cluster_role,
            "uid": role["metadata"]["uid"],
            "blockOwnerDeletion": False,
        }
    ]


async def leads(client: Client, namespace: str, service: str) -> bool:
    """Tell whether the Service leads to a ready replica.

    Raises:
        ApiError: it cannot be found out.
    """
    rows = await _endpoints(client, namespace, service)
    return any(dig(row, "conditions", "ready", default=True) is True for row in rows)


async def updated(client: Client, namespace: str, service: str, *, pod: str) -> bool:
    """Tell whether every Pod of the Service, ready or not, is of the same ReplicaSet as ``pod``.

    During a rolling update there are Pods of another ReplicaSet, which may have another version. A
    Pod is listed until it has ended. If ``pod`` is not listed, it is the name of a node
    (``hostNetwork``). Then the answer is unknown, which counts as updated.

    Raises:
        ApiError: the Pods cannot be read.
    """
    rows = await _endpoints(client, namespace, service)
    pods = {name for row in rows if (name := dig(row, "targetRef", "name"))}
    return pod not in pods or {_replica_set(name) for name in pods} == {_replica_set(pod)}


async def _endpoints(client: Client, namespace: str, service: str) -> list[Json]:
    slices = await client.list(
        _SLICE, namespace, label_selector=f"kubernetes.io/service-name={service}"
    )
    return [row for each in slices for row in each.get("endpoints") or ()]


def _replica_set(pod: str) -> str:
    """Return the name of a Pod without the suffix of its ReplicaSet."""
    return pod.rpartition("-")[0]


async def reachable(found: Callable[[], Awaitable[bool]], *, pause: float = _PAUSE) -> None:
    """Ask every ``pause`` seconds until this process is found; an error is logged once."""
    told = False
    while True:
        try:
            if await found():
                return
        except ApiError as exc:
            if not told:
                logger.error("endpoints not read", extra={"error": str(exc)})  # noqa: TRY400 - one line
            told = True
        await asyncio.sleep(pause)
