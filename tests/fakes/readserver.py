"""A resource of the aggregated API, served over HTTP without the chain of filters before it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from apiserver.call import Call, User
from apiserver.resource import Column, Resource
from apiserver.serving import Serving
from apiserver.status import StatusError
from apiserver.view import View
from tests.fakes import serving as loopback
from toolkit.objects import Json


class Gauge(msgspec.Struct):
    """The model of the resource; nothing reads it here."""


def gauge(name: str, *, namespace: str = "apps", **parts: Any) -> Json:
    """Return an object: ``uid``, ``labels`` and anything of ``spec``."""
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "uid": parts.pop("uid", f"{namespace}/{name}"),
        "creationTimestamp": parts.pop("created", "2026-01-01T00:00:00Z"),
        "labels": parts.pop("labels", {}),
    }
    return {"metadata": meta, "spec": parts}


def resource(view: View) -> Resource:
    return Resource(
        kind="Gauge",
        plural="gauges",
        singular="gauge",
        short_names=("ga",),
        model=Gauge,
        columns=(
            Column(
                name="Name",
                cell=lambda obj: str(obj["metadata"]["name"]),
                format="name",
                description="Its name.",
            ),
            Column(
                name="Level",
                cell=lambda obj: int(obj["spec"].get("level", 0)),
                type="integer",
                description="How much water there is.",
            ),
            Column(
                name="Age",
                cell=lambda obj: str(obj["metadata"]["creationTimestamp"]),
                type="date",
                description="How long it has been there.",
            ),
            Column(
                name="River",
                cell=lambda obj: str(obj["spec"].get("river", "")),
                priority=1,
                description="Where it stands.",
            ),
        ),
        fields={"spec.river": lambda obj: str(obj["spec"].get("river", ""))},
        view=view,
    )


def new_view(**more: Any) -> View:
    names: dict[str, Any] = {"kind": "Gauge", "api_version": "gitops.penstock.dev/v1alpha1"}
    return View(**(names | {"tag": 7} | more))


class Reader:
    """A client of the resource; paths are below ``/gauges`` or ``/namespaces/<name>/gauges``."""

    def __init__(self, session: aiohttp.ClientSession, url: str, serving: Serving) -> None:
        self.serving = serving
        self.session = session
        self.url = url
        self.transports: list[asyncio.Transport] = []
        """Of all requests, on the server's side."""

    @property
    def view(self) -> View:
        return self.serving.resource.view

    def request(self, path: str = "/gauges", **options: Any) -> Any:
        """Return the context manager of a request; ``accept`` is a header, the rest parameters."""
        headers = {"Accept": options.pop("accept", "application/json"), "User-Agent": "client-go"}
        headers |= options.pop("headers", {})
        return self.session.get(self.url + path, params=options, headers=headers)

    async def get(self, path: str = "/gauges", **options: Any) -> tuple[int, Json]:
        """Return the code and the document that are answered."""
        async with self.request(path, **options) as response:
            return response.status, await response.json(content_type=None)

    async def names(self, path: str = "/gauges", **options: Any) -> list[str]:
        """Return the names in a list."""
        code, document = await self.get(path, **options)
        assert code == 200, document
        return [item["metadata"]["name"] for item in document["items"]]

    @asynccontextmanager
    async def watch(self, path: str = "/gauges", **options: Any) -> AsyncIterator["Lines"]:
        """Watch, and read line by line."""
        async with self.request(path, watch="true", **options) as response:
            assert response.status == 200, await response.text()
            yield Lines(response)


class Lines:
    """The events of a watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self, *, within: float = 120) -> Json | None:
        """Return the next event; None at the end of the stream."""
        async with asyncio.timeout(within):
            line = await self._response.content.readline()
        return msgspec.json.decode(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the next events; a bookmark has no name."""
        events = [await self.next() for _ in range(count)]
        return [
            (event["type"], event["object"]["metadata"].get("name", ""))
            for event in events
            if event
        ]

    async def rest(self) -> list[Json]:
        """Return all events until the stream ends."""
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


@asynccontextmanager
async def serve(view: View) -> AsyncIterator[Reader]:
    """Serve a view on loopback."""
    serving = Serving(resource(view))
    transports: list[asyncio.Transport] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            transports.append(request.transport)
        name = request.match_info.get("name", "")
        watch = request.query.get("watch") == "true"
        call = Call(
            web=request,
            user=User(name="ada"),
            verb="watch" if watch else "get" if name else "list",
            path=request.path,
            query=request.query,
            resource="gauges",
            namespace=request.match_info.get("namespace", ""),
            name=name,
        )
        verbs = {"get": serving.get, "list": serving.list, "watch": serving.watch}
        try:
            return await verbs[call.verb](call)
        except StatusError as exc:
            return web.json_response(exc.document(), status=exc.code)

    app = web.Application()
    for path in ("/gauges", "/namespaces/{namespace}/gauges"):
        app.router.add_get(path, handle)
    app.router.add_get("/namespaces/{namespace}/gauges/{name}", handle)
    async with (
        loopback.serving(app) as port,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout()) as session,
    ):
        reader = Reader(session, f"http://127.0.0.1:{port}", serving)
        reader.transports = transports
        yield reader
