"""Hang below objects what they own, and below that what it owns, level by level.

A node is a mapping with ``namespace``; it gets ``children``, each a node with ``apiVersion``,
``kind``, ``namespace``, ``name``, ``health`` and ``message``, and ``unread`` where what it owns
cannot be read, or not all of it. Owners are known by their uid, and own objects of their namespace
only. So each kind of a namespace is listed once per level, whatever the number of owners.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from toolkit.apply.order import GroupKind
from toolkit.apply.owned import pages
from toolkit.apply.owned.pages import Budget, Child, Found
from toolkit.errors import PenstockError
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json

_REPLICA_SET: Final = GroupVersionKind("apps", "v1", "ReplicaSet")
_POD: Final = GroupVersionKind("", "v1", "Pod")
_JOB: Final = GroupVersionKind("batch", "v1", "Job")
_ENDPOINT_SLICE: Final = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")

CHILDREN: Final[Mapping[GroupKind, GroupVersionKind]] = MappingProxyType(
    {
        ("apps", "Deployment"): _REPLICA_SET,
        ("apps", "ReplicaSet"): _POD,
        ("apps", "StatefulSet"): _POD,
        ("apps", "DaemonSet"): _POD,
        ("", "ReplicationController"): _POD,
        ("batch", "CronJob"): _JOB,
        ("batch", "Job"): _POD,
        ("", "Service"): _ENDPOINT_SLICE,
    }
)
"""Which kind the objects of a kind own."""

_Place = tuple[GroupVersionKind, str]
"""A kind, and a namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A node that may have children, and its uid."""

    kind: GroupKind
    uid: str
    node: Json


async def grow(api: Client, branches: Sequence[Branch], turns: asyncio.Semaphore) -> None:
    """Add to the nodes what their objects own; ``turns`` bounds the lists at one time.

    Kinds that cannot be listed are named at the nodes, and hide nothing else.
    """
    budget, level = Budget(), list(branches)
    while level:
        found = await _read(api, level, budget, turns)
        level = [child for branch in level for child in _attached(branch, found)]


async def _read(
    api: Client, level: Iterable[Branch], budget: Budget, turns: asyncio.Semaphore
) -> dict[_Place, Found]:
    """List, once each, the kinds that the objects of this level may own in their namespaces."""
    wanted: dict[_Place, set[str]] = {}
    for branch in level:
        if place := _place(branch):
            wanted.setdefault(place, set()).add(branch.uid)
    found: dict[_Place, Found] = {}

    async def listed(place: _Place) -> None:
        try:
            async with turns:
                found[place] = await pages.read(api, *place, wanted[place], budget)
        except PenstockError as exc:
            found[place] = Found(problem=f"{place[0].kind}s cannot be read: {exc}")

    async with asyncio.TaskGroup() as group:
        for place in sorted(wanted):
            group.create_task(listed(place))
    return found


def _attached(branch: Branch, read: Mapping[_Place, Found]) -> Iterable[Branch]:
    """Hang the children that were read below their owner, and yield them."""
    place = _place(branch)
    if place is None:
        return
    found = read[place]
    if found.problem:
        branch.node["unread"] = found.problem
    kind, namespace = place
    for child in sorted(found.children.get(branch.uid, ()), key=lambda child: child.name):
        if child.namespace == namespace:
            yield _grown(branch, kind, child)


def _place(branch: Branch) -> _Place | None:
    kind, namespace = CHILDREN.get(branch.kind), branch.node.get("namespace", "")
    return (kind, namespace) if kind and namespace else None


def _grown(branch: Branch, kind: GroupVersionKind, child: Child) -> Branch:
    node: Json = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": child.namespace,
        "name": child.name,
        "health": child.health.status.value,
        "message": child.health.message,
    }
    branch.node.setdefault("children", []).append(node)
    return Branch(kind=kind.group_kind, uid=child.uid, node=node)
