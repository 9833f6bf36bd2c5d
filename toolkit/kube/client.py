"""The Kubernetes client: one connection pool, JSON objects in and out.

Written for controllers: server-side apply, impersonating views that share the pool, errors as
types, retries only if a retry cannot do harm. It asks for uncompressed bodies, because gzip doubles
the latency inside a cluster.

Writes say ``fieldValidation=Ignore``. With the default, ``Warn``, the server parses each body a
second time, for warnings that no person would read: apply refuses fields that the schema does not
know in any case ("field not declared in schema"), and what we encode has no field twice. Other
warnings are logged at debug level.

It does not cache objects (``informer``) and does not know the kinds (``crds``).
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import quote

import msgspec

from toolkit.kube import config, errors, mapper, transport
from toolkit.objects import GroupVersionKind, Json, dig, gvk_of, key_of
from toolkit.remote.dialling import Reach

logger = logging.getLogger(__name__)

_METADATA_ONLY: Final = (
    "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
)
"""The media type of metadata-only answers; a server without it sends whole objects."""
_MAX_BODY: Final = 256 << 20
"""Bytes; a page of a list is the longest answer there is."""
_MAX_EMPTY_PAGES: Final = 1000
"""In a row; a server may filter out every item of a page."""
_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
_UNCHECKED: Final[Mapping[str, str]] = MappingProxyType({"fieldValidation": "Ignore"})
_PATCHES: Final = MappingProxyType(
    {"merge": transport.MERGE, "json": "application/json-patch+json"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of a server-side apply; ``created`` is true for 201 and false for 200."""

    object: Json
    created: bool


class Client:
    """One identity on one cluster. Open it once per process; derive views from it."""

    @classmethod
    def open(  # noqa: PLR0913 - the limits of a client
        cls,
        cluster: config.ClusterConfig,
        *,
        qps: float = 0,
        burst: int = 0,
        timeout: float = 30.0,
        patience: float | None = None,
        max_body: int = _MAX_BODY,
        reach: Reach = Reach.ANYWHERE,
    ) -> "Client":
        """Connect lazily; must be called in a running event loop and closed afterwards.

        ``timeout`` is for one attempt, ``patience`` for a request with its repetitions. With
        ``qps`` of zero or less, only the server's Priority and Fairness limits requests. An
        answer of more than ``max_body`` bytes is an error. ``reach`` limits the addresses of the
        server and its proxy, for a cluster that another user names.
        """
        wire = transport.Transport(
            cluster,
            qps=qps,
            burst=burst,
            timeout=timeout,
            patience=patience,
            max_body=max_body,
            reach=reach,
        )
        return cls(wire, {}, namespace=cluster.namespace)

    def __init__(
        self,
        wire: transport.Transport,
        headers: Mapping[str, str | Sequence[str]],
        *,
        namespace: str,
    ) -> None:
        self._wire = wire
        self._headers = headers
        self.namespace = namespace
        self.mapper = mapper.RestMapper(self._discover)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the pool, also for every impersonating view."""
        await self._wire.close()

    @property
    def server(self) -> str:
        """Return the API server's base URL."""
        return self._wire.server

    def impersonating(
        self,
        user: str,
        *,
        groups: Sequence[str] = (),
        extra: Mapping[str, str | Sequence[str]] = _EMPTY,
        uid: str = "",
    ) -> "Client":
        """Return a view that acts as ``user``, with groups, uid and ``userInfo.extra`` as given.

        Extra keys are percent-encoded in the header's name and arrive in lower case
        (KEP-1513; apiserver ``authentication/request/headerrequest``).
        """
        headers: dict[str, str | Sequence[str]] = {"Impersonate-User": user}
        if groups:
            headers["Impersonate-Group"] = groups
        if uid:
            headers["Impersonate-Uid"] = uid
        for key, value in extra.items():
            headers[f"Impersonate-Extra-{quote(key, safe='')}"] = value
        view = Client(self._wire, headers, namespace=self.namespace)
        view.mapper = self.mapper
        return view

    async def get(
        self,
        gvk: GroupVersionKind,
        name: str,
        namespace: str = "",
        *,
        metadata_only: bool = False,
    ) -> Json:
        """Read one object.

        Raises:
            NotFoundError: it does not exist.
        """
        resource = await self.mapper.resource(gvk)
        accept = {"Accept": _METADATA_ONLY.format("")} if metadata_only else {}
        return await self.request("GET", resource.path(name, namespace), headers=accept)

    async def list(
        self,
        gvk: GroupVersionKind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> list[Json]:
        """Read a collection; each item gets its ``apiVersion`` and ``kind``."""
        pages = self.pages(
            gvk,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
        )
        kind = {"apiVersion": gvk.api_version, "kind": gvk.kind}
        return [{**kind, **item} async for page in pages for item in page]

    async def pages(  # noqa: PLR0913 - the parameters of a list request
        self,
        gvk: GroupVersionKind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        metadata_only: bool = False,
    ) -> AsyncIterator[Sequence[Json]]:
        """Yield the items of a collection page by page, for callers that keep no whole list.

        Raises:
            ApiError: it cannot be listed, or it has so many empty pages in a row that it may have
                no end. The API allows pages whose items were all filtered out.
        """
        path = (await self.mapper.resource(gvk)).path(namespace=namespace)
        accept = {"Accept": _METADATA_ONLY.format("List")} if metadata_only else {}
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit),
        }
        empty = 0
        while empty < _MAX_EMPTY_PAGES:
            page = await self.request("GET", path, query=query, headers=accept)
            items = page.get("items") or []
            yield items
            empty = 0 if items else empty + 1
            query["continue"] = str(dig(page, "metadata", "continue", default=""))
            if not query["continue"]:
                return
        raise errors.ApiError(
            f"the list of {gvk.kind} of {self.server} has {empty} empty pages in a row"
        )

    async def create(self, obj: Json) -> Json:
        """Create the object.

        Raises:
            AlreadyExistsError: an object of that name exists.
        """
        path = (await self.mapper.resource(gvk_of(obj))).path(namespace=key_of(obj).namespace)
        return await self.request("POST", path, query=_UNCHECKED, body=obj)

    async def apply(  # noqa: PLR0913 - what to apply, and how
        self,
        obj: Json,
        *,
        manager: str,
        force: bool = True,
        dry_run: bool = False,
        subresource: str = "",
        metadata_only: bool = False,
    ) -> Applied:
        """Apply the object server-side as field manager ``manager``.

        With ``metadata_only`` nothing but kind and metadata can be relied on in the answer.

        Raises:
            ConflictError: another manager owns a field and ``force`` is off.
            InvalidError: validation failed; ``causes`` names the fields.
        """
        key = key_of(obj)
        resource = await self.mapper.resource(gvk_of(obj))
        query = {"fieldManager": manager, "force": str(force).lower()}
        accept = {"Accept": _METADATA_ONLY.format("")} if metadata_only else {}
        reply = await self._wire.send(
            transport.Request(
                method="PATCH",
                path=resource.path(key.name, key.namespace, subresource=subresource),
                query={**query, **_UNCHECKED, **_dry(dry_run)},
                data=msgspec.json.encode(obj),
                headers={**self._headers, "Content-Type": transport.APPLY, **accept},
            )
        )
        named = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]} if metadata_only else {}
        return Applied(object=_decoded(reply.body) | named, created=reply.status == 201)

    async def patch(  # noqa: PLR0913 - what to patch, and how
        self,
        gvk: GroupVersionKind,
        name: str,
        namespace: str,
        body: Json | Sequence[Json],
        *,
        strategy: Literal["merge", "json"],
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Patch one object (RFC 7386 or RFC 6902) and return the current object."""
        resource = await self.mapper.resource(gvk)
        return await self.request(
            "PATCH",
            resource.path(name, namespace, subresource=subresource),
            query={"fieldManager": manager, **_UNCHECKED, **_dry(dry_run)},
            body=body,
            headers={"Content-Type": _PATCHES[strategy]},
        )

    async def replace(self, obj: Json, *, manager: str, subresource: str = "") -> Json:
        """Replace the object, or its subresource, and return the current object.

        Raises:
            ConflictError: the object has changed since the ``resourceVersion`` in ``obj``.
        """
        key = key_of(obj)
        resource = await self.mapper.resource(gvk_of(obj))
        return await self.request(
            "PUT",
            resource.path(key.name, key.namespace, subresource=subresource),
            query={"fieldManager": manager, **_UNCHECKED},
            body=obj,
        )

    async def delete(  # noqa: PLR0913 - what to delete, and how
        self,
        gvk: GroupVersionKind,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        uid: str = "",
        version: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Delete one object; ``uid`` and ``version`` are preconditions.

        Returns the object, with a ``deletionTimestamp``, if it still exists; otherwise the answer
        of the server, which has no ``deletionTimestamp``.

        Raises:
            NotFoundError: the object does not exist.
            ConflictError: the name belongs to another object, or the object has changed.
        """
        resource = await self.mapper.resource(gvk)
        options: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if uid or version:
            wanted = {"uid": uid, "resourceVersion": version}
            options["preconditions"] = {key: value for key, value in wanted.items() if value}
        if dry_run:
            # In the body: with one, the server does not read delete options from the query.
            options["dryRun"] = ["All"]
        return await self.request("DELETE", resource.path(name, namespace), body=options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = _EMPTY,
        body: Json | Sequence[Json] | None = None,
        headers: Mapping[str, str] = _EMPTY,
    ) -> Json:
        """Send any other request and return the decoded JSON; empty query values are left out."""
        reply = await self._wire.send(
            transport.Request(
                method=method,
                path=path,
                query={key: value for key, value in query.items() if value},
                data=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": "application/json", **self._headers, **headers},
            )
        )
        return _decoded(reply.body) if reply.body else {}

    async def read(self, path: str, *, query: Mapping[str, str], accept: str) -> bytes:
        """GET a path and return the body undecoded, for callers with decoders of their own."""
        request = transport.Request(
            method="GET", path=path, query=query, headers={**self._headers, "Accept": accept}
        )
        return (await self._wire.send(request)).body

    @asynccontextmanager
    async def watch(
        self, path: str, *, query: Mapping[str, str], accept: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream and give its chunks as they arrive; deadlines are the caller's."""
        request = transport.Request(
            method="GET", path=path, query=query, headers={**self._headers, "Accept": accept}
        )
        async with self._wire.stream(request) as chunks:
            yield chunks

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """Forward a request of another client; yield status, headers and chunks of the answer.

        Our own headers win, so the other client cannot choose the impersonated identity.
        """
        request = transport.Request(
            method=method,
            path=target,
            query={},
            headers={**headers, **self._headers},
            data=body or None,
        )
        async with self._wire.exchange(request) as response:
            yield response.status, response.headers, response.content.iter_any()

    async def _discover(self, path: str) -> Json:
        return await self.request("GET", path, headers={"Accept": mapper.ACCEPT})


def _decoded(body: bytes) -> Json:
    try:
        decoded: Json = _JSON_OBJECT.decode(body)
    # an object may be nested deeper than the interpreter follows
    except (ValueError, RecursionError) as exc:
        raise errors.ApiError(f"the server sent something that is not an object: {exc}") from exc
    return decoded


_JSON_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


def _dry(dry_run: bool) -> dict[str, str]:  # noqa: FBT001 - private, one argument
    return {"dryRun": "All"} if dry_run else {}
