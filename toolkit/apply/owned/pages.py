"""Read the objects of one kind and namespace that have certain owners, within bounds.

Objects may be large and many, and the server may be hostile. Pages are small, their bytes are
counted while they arrive, and their number is bounded. Of each object only what a tree shows is
kept.
"""

import asyncio
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from crds import misfits
from toolkit.apply import health
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json

MOST: Final = 5_000
"""Objects read for one tree."""
_PAGE: Final = 50
_PAGE_BYTES: Final = 8 << 20
_MOST_BYTES: Final = 64 << 20
"""Read for one tree; not held."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """The objects and bytes that may still be read for one tree."""

    objects: int = MOST
    bytes: int = _MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What a tree shows of an object that has an owner."""

    namespace: str
    name: str
    uid: str
    health: health.Health


@dataclass(slots=True, kw_only=True)
class Found:
    """The children of each owner, by the owner's uid, and why some are missing."""

    children: dict[str, list[Child]] = field(default_factory=dict)
    problem: str = ""


async def read(
    api: Client,
    kind: GroupVersionKind,
    namespace: str,
    owners: AbstractSet[str],
    budget: Budget,
) -> Found:
    """Return the objects that one of the owners owns; what exceeds the budget is left out.

    Raises:
        PenstockError: the kind cannot be listed.
    """
    path = (await api.mapper.resource(kind)).path(namespace=namespace)
    query, found = {"limit": str(_PAGE)}, Found()
    while budget.objects > 0:
        body = await _page(api, path, query, budget)
        if body is None:
            found.problem = "objects are too large: not all are shown"
            return found
        # decoded in a thread, object by object, and nothing of it stays
        page = await asyncio.to_thread(_decoded, body, kind, namespace, owners)
        del body
        budget.objects -= page.count
        for owner, child in page.children:
            found.children.setdefault(owner, []).append(child)
        if not page.more:
            return found
        if not page.count:  # nothing would end such a list
            raise TransientError("the server sent an empty page that is not the last one")
        query = {"limit": str(_PAGE), "continue": page.more}
    found.problem = f"more than {MOST} objects: not all are shown"
    return found


async def _page(api: Client, path: str, query: Mapping[str, str], budget: Budget) -> bytes | None:
    """Return one page, or None if it is too large, or all pages together have become so."""
    body = bytearray()
    # a stream, because nothing else can be given up when it is too long
    async with api.watch(path, query=query, accept="application/json") as chunks:
        async for chunk in chunks:
            budget.bytes -= len(chunk)
            if len(body) + len(chunk) > _PAGE_BYTES or budget.bytes < 0:
                return None
            body += chunk
    return bytes(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """What was found in one page, each with the uid of its owner, and where the next begins."""

    count: int
    more: str
    children: tuple[tuple[str, Child], ...]


class _Owner(msgspec.Struct):
    uid: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class _ListMeta(msgspec.Struct):
    more: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_LIST: Final = msgspec.json.Decoder(_List)
_OBJECT: Final = msgspec.json.Decoder(_Object)


def _decoded(
    body: bytes, kind: GroupVersionKind, namespace: str, owners: AbstractSet[str]
) -> _Page:
    """Decode one page.

    Raises:
        TransientError: it is not a list.
    """
    try:
        page = _LIST.decode(body)
        items = page.items or ()
        found = tuple(pair for raw in items for pair in _owned(raw, kind, namespace, owners))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise TransientError(
            f"the server sent something that is not a list: {misfits.told(exc)}"
        ) from exc
    return _Page(count=len(items), more=page.metadata.more, children=found)


def _owned(
    raw: msgspec.Raw, kind: GroupVersionKind, namespace: str, owners: AbstractSet[str]
) -> Iterator[tuple[str, Child]]:
    """Yield an object for each of its owners that is asked about."""
    obj = _OBJECT.decode(raw)
    meta = obj.metadata
    ours = owners & {owner.uid for owner in meta.owner_references or ()}
    if not ours:
        return
    judged: Json = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "namespace": namespace,
            "name": meta.name,
            "generation": meta.generation,
            "deletionTimestamp": meta.deletion_timestamp,
        },
        "spec": obj.spec or {},
        "status": obj.status or {},
    }
    child = Child(
        namespace=meta.namespace, name=meta.name, uid=meta.uid, health=health.assess(judged)
    )
    yield from ((owner, child) for owner in ours)
