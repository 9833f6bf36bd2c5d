"""A registry in memory: the part of the distribution API for pushing, pulling and signing.

It is only for the demo. It has no referrers API, so signatures are listed under the fallback tag.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

_LARGEST: Final = 64 << 20


class Registry:
    """Keeps blobs by digest, and manifests by repository and by tag or digest."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._manifests: dict[tuple[str, str], tuple[str, bytes]] = {}

    def application(self) -> web.Application:
        """Return the web application."""
        application = web.Application(client_max_size=_LARGEST)
        name = "/v2/{name:.+}"
        for method, path, handler in (
            ("POST", f"{name}/blobs/uploads/", self._begin),
            ("PUT", f"{name}/blobs/uploads/{{upload}}", self._upload),
            ("GET", f"{name}/blobs/{{digest}}", self._blob),
            ("PUT", f"{name}/manifests/{{reference}}", self._put),
            ("GET", f"{name}/manifests/{{reference}}", self._manifest),
            ("GET", f"{name}/tags/list", self._tags),
        ):
            # aiohttp answers HEAD where it answers GET.
            application.router.add_route(method, path, handler)
            if method == "GET":
                application.router.add_route("HEAD", path, handler)
        return application

    async def _begin(self, request: web.Request) -> web.Response:
        location = f"{request.path}{secrets.token_hex(8)}"
        return web.Response(status=202, headers={"Location": location})

    async def _upload(self, request: web.Request) -> web.Response:
        data = await request.read()
        if request.query.get("digest") != _digest(data):
            raise web.HTTPBadRequest
        self._blobs[_digest(data)] = data
        return web.Response(status=201)

    async def _blob(self, request: web.Request) -> web.Response:
        data = self._blobs.get(request.match_info["digest"])
        if data is None:
            raise web.HTTPNotFound
        return web.Response(body=data)

    async def _put(self, request: web.Request) -> web.Response:
        name, reference = request.match_info["name"], request.match_info["reference"]
        data = await request.read()
        for place in {reference, _digest(data)}:
            self._manifests[name, place] = (request.content_type, data)
        return web.Response(status=201, headers={"Docker-Content-Digest": _digest(data)})

    async def _manifest(self, request: web.Request) -> web.Response:
        key = request.match_info["name"], request.match_info["reference"]
        if key not in self._manifests:
            raise web.HTTPNotFound
        media_type, data = self._manifests[key]
        headers = {"Docker-Content-Digest": _digest(data), "Content-Type": media_type}
        return web.Response(body=data, headers=headers)

    async def _tags(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        found = sorted(ref for place, ref in self._manifests if place == name and ":" not in ref)
        return web.json_response({"name": name, "tags": found})


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """Serve a registry on a port of the kernel's choice; give its host and port."""
    runner = web.AppRunner(Registry().application())
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        _, port = runner.addresses[0]
        yield f"127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
