"""The REST path of a kind: a cache of the server's aggregated discovery.

Two requests (``/api`` and ``/apis``) fill it for all groups (KEP-3352). A lookup of an unknown kind
refreshes it, at most once in a few seconds, because CRDs are created and deleted. It has no
schemas.

A version is stale while its aggregated API server does not answer. Its kinds may be missing then,
which does not mean that they are gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from toolkit.kube import errors
from toolkit.objects import GroupVersionKind, Json, dig

ACCEPT: Final = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)
_MIN_REFRESH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The resource of one kind."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    def path(self, name: str = "", namespace: str = "", *, subresource: str = "") -> str:
        """Return the URL path of an object, or of the collection if the name is empty.

        Raises:
            ApiError: the namespace of a namespaced object is missing, or a name is invalid.
        """
        group = f"/apis/{self.gvk.group}" if self.gvk.group else "/api"
        parts = [f"{group}/{self.gvk.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{segment(namespace)}")
        elif self.namespaced and name:
            raise errors.ApiError(
                f"{self.gvk.kind}/{name} needs a namespace", status=400, api_reason="BadRequest"
            )
        parts.append(self.plural)
        parts += [segment(part) for part in (name, subresource) if part]
        return "/".join(parts)


def segment(name: str) -> str:
    """Return a name as one segment of a URL path.

    Names come from tenants, and a path with ``..`` in it leads to another namespace.

    Raises:
        ApiError: it cannot be the name of anything (apimachinery ``IsValidPathSegmentName``).
    """
    if name in (".", "..") or "/" in name or "%" in name:
        raise errors.ApiError(f"invalid name {name!r}", status=400, api_reason="BadRequest")
    return quote(name, safe=":@")


class RestMapper:
    """Answers ``resource(gvk)`` from memory; asks the server when it must."""

    def __init__(self, fetch: Callable[[str], Awaitable[Json]]) -> None:
        self._fetch = fetch
        self._resources: Mapping[GroupVersionKind, Resource] = {}
        self._stale: frozenset[tuple[str, str]] = frozenset()
        self._refreshed = float("-inf")
        self._lock = asyncio.Lock()

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        """Return the resource of a kind.

        Raises:
            NoMatchError: the server does not serve the kind (after a new request, which is
                rate-limited).
            StaleDiscoveryError: it is not known whether the kind is served.
        """
        found = self._resources.get(gvk)
        if found is None:
            await self._refresh(gvk)
            found = self._resources.get(gvk)
        if found is None and (gvk.group, gvk.version) in self._stale:
            raise errors.StaleDiscoveryError(
                f"whether kind {gvk.kind!r} is served in {gvk.api_version!r} is not known, because"
                f" its API server does not answer: look at APIService '{gvk.version}.{gvk.group}'",
                api_reason="ServiceUnavailable",
            )
        if found is None:
            raise errors.NoMatchError(f"no matches for kind {gvk.kind!r} in {gvk.api_version!r}")
        return found

    def invalidate(self) -> None:
        """Forget everything; the next question asks the server."""
        self._resources = {}
        self._refreshed = float("-inf")

    async def _refresh(self, wanted: GroupVersionKind) -> None:
        async with self._lock:
            now = asyncio.get_running_loop().time()
            fresh = now - self._refreshed < _MIN_REFRESH_SECONDS
            if fresh or wanted in self._resources:
                return
            core, groups = await asyncio.gather(self._fetch("/api"), self._fetch("/apis"))
            self._resources = _by_kind(core, groups)
            self._stale = frozenset(_stale(groups))
            self._refreshed = now


def _by_kind(*documents: Json) -> Mapping[GroupVersionKind, Resource]:
    try:
        return {resource.gvk: resource for doc in documents for resource in _resources(doc)}
    except (LookupError, TypeError, AttributeError) as exc:
        raise errors.ApiError("the server sent something that is not a discovery document") from exc


def _stale(discovery: Json) -> Iterator[tuple[str, str]]:
    for group in discovery.get("items") or ():
        for version in group.get("versions") or ():
            if version.get("freshness") == "Stale":
                yield dig(group, "metadata", "name", default=""), version["version"]


def _resources(discovery: Json) -> Iterator[Resource]:
    """Yield the resources of an ``APIGroupDiscoveryList``; a stale group keeps its last kinds."""
    for group in discovery.get("items") or ():
        for version in group.get("versions") or ():
            for resource in version.get("resources") or ():
                kind = dig(resource, "responseKind", "kind", default="")
                yield Resource(
                    gvk=GroupVersionKind(
                        dig(group, "metadata", "name", default=""), version["version"], kind
                    ),
                    plural=resource["resource"],
                    namespaced=resource.get("scope") == "Namespaced",
                    verbs=frozenset(resource.get("verbs") or ()),
                )
