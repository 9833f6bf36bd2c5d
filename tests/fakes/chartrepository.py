"""A chart repository over HTTP on loopback: an index and packages, with validators and logins.

``ChartRepository`` is an async context manager. It records every request; what it serves are
attributes, to be changed while it runs.
"""

import base64
import gzip
import hashlib
import json
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Self

from aiohttp import web

from tests.fakes.charts import chart, entry, package
from tests.fakes.serving import serving


class ChartRepository:
    """Serves ``/charts/index.yaml`` and packages beside it, to everybody or to one login."""

    def __init__(
        self,
        *,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.index = b""
        self.files: dict[str, bytes] = {}
        """What else there is, by path."""
        self.redirects: dict[str, str] = {}
        self.headers: dict[str, str] = {}
        """What is sent with the index, besides validators."""
        self.validators = True
        self.compressed = False
        self.seen: list[web.BaseRequest] = []
        self._login = login
        self._tls = tls
        self._host = host
        self._entries: dict[str, list[dict[str, object]]] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        served = serving(self._answer, tls=self._tls, host=self._host)
        self.port = await self._open.enter_async_context(served)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    @property
    def origin(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the repository's URL."""
        return f"{self.origin}/charts"

    @property
    def paths(self) -> list[str]:
        """Return which paths were asked for."""
        return [request.path for request in self.seen]

    def add(
        self,
        name: str = "podinfo",
        version: str = "6.0.0",
        *,
        files: Mapping[str, str] | None = None,
        **fields: object,
    ) -> bytes:
        """Add a chart and its entry, of which ``fields`` may be other than they should be."""
        data = package(files if files is not None else chart(name, version), folder=name)
        self.files[f"/charts/{name}-{version}.tgz"] = data
        digest = hashlib.sha256(data).hexdigest()
        found = entry(name, version, digest=digest) | fields
        self._entries.setdefault(name, []).append(found)
        self._write()
        return data

    def withdraw(self, name: str) -> None:
        """Take all versions of a chart away."""
        for each in self._entries.pop(name):
            del self.files[f"/charts/{name}-{each['version']}.tgz"]
        self._write()

    def _write(self) -> None:
        self.index = json.dumps({"apiVersion": "v1", "entries": self._entries}).encode()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if self._login is not None:
            expected = base64.b64encode(":".join(self._login).encode()).decode()
            if request.headers.get("Authorization") != f"Basic {expected}":
                raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Basic"})
        if request.path in self.redirects:
            raise web.HTTPFound(self.redirects[request.path])
        if request.path == "/charts/index.yaml":
            return self._indexed(request)
        if request.path not in self.files:
            raise web.HTTPNotFound
        return web.Response(body=self.files[request.path])

    def _indexed(self, request: web.Request) -> web.Response:
        headers = dict(self.headers)
        if self.validators:
            headers["ETag"] = f'"{hashlib.sha256(self.index).hexdigest()[:16]}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers=headers)
        body = self.index
        if self.compressed and "gzip" in request.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)
