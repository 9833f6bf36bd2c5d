"""Follow inventories from an applier down, on this cluster and on those of appliers.

The aggregated API has the health of applied objects, and the objects that they own in the namespace
of the applier. The rest is read with the permissions of the user, also on other clusters
(``entering``).
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from apiserver.inventories import appliers
from cli import errors, kindtree, session, window
from cli.trees import entering
from cli.trees.owned import Owned
from crds import ARTIFACT_GENERATOR, EXTERNAL_ARTIFACT, KINDS
from toolkit import inventory
from toolkit.errors import PenstockError
from toolkit.kube import errors as kube_errors
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

_DEPTH: Final = 20
_TOLD: Final = ("health", "message", "unread")
Above = frozenset[tuple[str, ObjectRef]]
"""The appliers on the way down, each with its API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """The cluster from which objects are read, and the connections to further clusters."""

    opened: session.Session
    owned: Owned
    remotes: RemoteClients

    def seen(self, ref: ObjectRef) -> tuple[str, ObjectRef]:
        return self.opened.api.server, ref


async def gather(opened: session.Session, ref: ObjectRef) -> Json:
    """Return ``{resource, resources}`` of an applier and of all below it.

    An applier that is below itself is shown there without its inventory; so is a deleted one.

    Raises:
        UsageError: the root does not exist.
    """
    async with RemoteClients(opened.api) as remotes:
        here = _Cluster(opened=opened, owned=Owned(opened.api), remotes=remotes)
        return await _node(here, ref, frozenset())


async def generated(opened: session.Session, name: str) -> Json:
    """Return ``{resource, resources}`` of an ArtifactGenerator and its ExternalArtifacts.

    Raises:
        UsageError: it does not exist.
    """
    ref = ObjectRef(GroupVersionKind(*ARTIFACT_GENERATOR.gvk), opened.namespace, name)
    obj = await _root(opened, ref)
    made = GroupVersionKind(*EXTERNAL_ARTIFACT.gvk)
    below = [
        ObjectRef(made, str(each.get("namespace")), str(each.get("name")))
        for each in dig(obj, "status", "inventory", default=())
    ]
    return {"resource": _of(ref), "resources": [{"resource": _of(each)} for each in below]}


async def _root(opened: session.Session, ref: ObjectRef) -> Json:
    try:
        return await opened.api.get(ref.gvk, ref.name, ref.namespace)
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'{ref.gvk.kind} object {ref.name!r} not found in "{ref.namespace}" namespace; '
            "choose another one with --namespace"
        ) from exc


async def _node(at: _Cluster, ref: ObjectRef, above: Above) -> Json:
    node: Json = {"resource": _of(ref)}
    if not _has_inventory(ref) or at.seen(ref) in above or len(above) >= _DEPTH:
        return node
    if not above:
        obj = await _root(at.opened, ref)
    else:
        try:
            obj = await at.opened.api.get(ref.gvk, ref.name, ref.namespace)
        except kube_errors.NotFoundError:
            return node
        except kube_errors.ApiError as exc:
            return node | {"unread": str(exc)}
    below = above | {at.seen(ref)}
    if dig(obj, "spec", "kubeConfig"):
        return node | await _far(at, obj, ref, below)
    grown = await _grown(at.opened, ref)
    return node | {"resources": await _below(at, obj, below, grown)}


async def _below(at: _Cluster, obj: Json, above: Above, grown: dict[str, Json]) -> list[Json]:
    """Return the objects of an applier; those that the aggregated API does not have are read."""
    entries = inventory.decode(dig(obj, "status", "inventory", "entries", default=()))
    untold = [ref for ref in entries if _unread(grown.get(str(ref), {}))]
    owned = await at.owned.below(untold)
    nodes = await asyncio.gather(*(_node(at, ref, above) for ref in entries))
    found = []
    for ref, node in zip(entries, nodes, strict=True):
        told, own = grown.get(str(ref), {}), _told(owned.get(ref, {}))
        kept = {key: value for key, value in told.items() if key != "unread" or not own}
        found.append({**node, **kept, **own})
    return found


def _unread(told: Json) -> bool:
    return not told or "unread" in told


async def _far(at: _Cluster, obj: Json, ref: ObjectRef, above: Above) -> Json:
    """Return the objects of an applier on another cluster; only names if it cannot be read."""
    try:
        async with (
            entering.entered(at.remotes, ref.namespace, obj) as api,
            RemoteClients(api) as remotes,
        ):
            there = _Cluster(opened=replace(at.opened, api=api), owned=Owned(api), remotes=remotes)
            return {"resources": await _below(there, obj, above, {})}
    except PenstockError as exc:
        entries = inventory.decode(dig(obj, "status", "inventory", "entries", default=()))
        return {
            "unread": f"{entering.FAR}: {exc}",
            "resources": [{"resource": _of(entry)} for entry in entries],
        }


async def _grown(opened: session.Session, ref: ObjectRef) -> dict[str, Json]:
    """Return health and owned objects from the aggregated API.

    Empty if it is not served, or the user may not read it.
    """
    name = appliers.inventory_name(ref.gvk.kind, ref.name)
    where = window.path("inventories", ref.namespace, name, "tree")
    found = await window.read_if_served(opened, where) or {}
    return {_named(node): _told(node) for node in found.get("objects") or ()}


def _told(node: Json) -> Json:
    told = {key: node[key] for key in _TOLD if node.get(key)}
    if node.get("children"):
        told["resources"] = [
            {"resource": _resource(child), **_told(child)} for child in node["children"]
        ]
    return told


def _resource(node: Json) -> Json:
    group, _, _ = str(node["apiVersion"]).rpartition("/")
    return {"kind": node["kind"], "name": _named(node), "group": group}


def _named(node: Json) -> str:
    gvk = GroupVersionKind.parse(str(node["apiVersion"]), str(node["kind"]))
    return str(ObjectRef(gvk, str(node.get("namespace") or ""), str(node["name"])))


def _of(ref: ObjectRef) -> Json:
    return {"kind": ref.gvk.kind, "name": str(ref), "group": ref.gvk.group}


def _has_inventory(ref: ObjectRef) -> bool:
    return any(
        (kind.group, kind.kind) == ref.gvk.group_kind and kindtree.APPLIERS in kind.categories
        for kind in KINDS
    )
