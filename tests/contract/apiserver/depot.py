"""A real artifact store behind its server, and sources that offer what lies in it."""

import contextlib
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from apiserver.artifacts import resource
from apiserver.resources import Row
from crds.meta import VERIFIED, Artifact
from tests.contract.apiserver.window import BASE, Reply, Window
from tests.fakes.serving import Handler, serving
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.objects import GroupVersionKind, Json

_SOURCE = "source.toolkit.fluxcd.io/v1"
KINDS = tuple(
    GroupVersionKind.parse(_SOURCE, kind)
    for kind in ("GitRepository", "HelmRepository", "ExternalArtifact")
)
SPEC = {"url": "https://git.example/web", "interval": "1h"}
ROW = Row(
    make=resource.artifacts,
    permissions=resource.PERMISSIONS,
    namespace_permissions=resource.NAMESPACE_PERMISSIONS,
)


@dataclass
class Server:
    """A server at a port that it keeps, also while it is away or another one is there."""

    application: Callable[[], web.Application]
    port: int
    _running: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        await self._running.enter_async_context(serving(self.application(), port=self.port))

    async def stop(self) -> None:
        await self._running.aclose()

    @contextlib.asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Have nobody listen."""
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    @contextlib.asynccontextmanager
    async def replaced(self, handler: Handler) -> AsyncIterator[None]:
        """Have another server answer instead."""
        async with self.away(), serving(handler, port=self.port):
            yield


@dataclass
class Depot:
    """The store, for the sources of a test's namespace."""

    window: Window
    storage: Storage
    server: Server
    directory: Path
    partner: int
    """Port of a third party's server, which the operator has named."""
    current: str = ""
    """The revision that was stored and offered last."""

    @property
    def owner(self) -> Owner:
        return Owner(kind="GitRepository", namespace=self.window.namespace, name="web")

    async def store(self, revision: str, files: dict[str, bytes], **metadata: str) -> Artifact:
        """Store a tree as the next artifact of GitRepository ``web``, and offer it."""
        tree = self.directory / f"tree-{revision[-8:]}"
        for name, content in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content)
        artifact = await self.storage.store(
            self.owner,
            revision=revision,
            filename=f"{revision.rpartition(':')[2]}.tar.gz",
            tree=tree,
            ignore=Ignore.from_rules(None),
            metadata=metadata,
        )
        await self.offer("GitRepository", "web", artifact, SPEC)
        self.current = revision
        return artifact

    async def store_file(self, revision: str, content: bytes) -> None:
        """Store bytes, whatever they are, as an artifact of GitRepository ``web``."""
        file = self.directory / "file"
        file.write_bytes(content)
        artifact = await self.storage.store_file(
            self.owner, revision=revision, filename="x.tar.gz", file=file
        )
        await self.offer("GitRepository", "web", artifact, SPEC)

    async def offer(self, kind: str, name: str, artifact: Artifact | None, spec: Json) -> None:
        self.current = ""
        obj = made(_SOURCE, kind, name, self.window.namespace)
        await self.window.admin.apply(obj | {"spec": spec}, manager="test")
        status = {"artifact": msgspec.to_builtins(artifact)} if artifact else {}
        await self.window.admin.apply(
            obj | {"status": status}, manager="test", subresource="status"
        )

    async def listed(self) -> list[Json]:
        """Return the artifacts of the namespace, through the API server."""
        found = await self.window.admin.request("GET", self.path())
        items: list[Json] = found["items"]
        return items

    async def known(self, *revisions: str) -> dict[str, Json]:
        """Wait until just these are there, and return them by revision.

        What was stored last may be seen in the store before the status of its source is.
        """

        async def look() -> tuple[dict[str, Json], ...]:
            found = {each["spec"].get("revision", ""): each for each in await self.listed()}
            last = found.get(self.current)
            behind = last is not None and not last["status"]["current"]
            return (found,) if set(found) == set(revisions) and not behind else ()

        found: dict[str, Json] = (await self.window.until(look))[0]
        return found

    async def stored(self, revision: str) -> str:
        """Wait until there is one artifact, of this revision, and return its name."""
        return str((await self.known(revision))[revision]["metadata"]["name"])

    def path(self, name: str = "", subresource: str = "") -> str:
        below = f"/{name}" if name else ""
        return f"{BASE}/namespaces/{self.window.namespace}/artifacts{below}{subresource}"

    async def ask(self, name: str, subresource: str, **more: Any) -> Reply:
        """Ask our own port as an administrator."""
        root = self.window.client_of("root", groups=("system:masters",))
        path = self.path(name, subresource)
        return await self.window.ask(path, **({"certificate": root} | more))

    async def refusal(self, name: str, subresource: str) -> Json:
        """Return the Status that says why an administrator gets nothing."""
        reply = await self.ask(name, subresource)
        assert reply.status >= 400, reply.body
        return reply.json

    async def raw(self, name: str, subresource: str) -> str:
        """Ask as an administrator does by kubectl."""
        return await self.window.kubectl("get", "--raw", self.path(name, subresource))


def made(api_version: str, kind: str, name: str, namespace: str) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def forged(url: str, digest: str) -> Artifact:
    """Return the artifact that a tenant writes into a status."""
    return Artifact(
        digest=digest,
        last_update_time="2026-01-01T00:00:00Z",
        path="externalartifact/x/y/x.tar.gz",
        revision="forged",
        url=url,
        size=8,
        metadata={VERIFIED: "the pope himself", "verify.penstock.dev/identity": "the pope"},
    )


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def bomb(*members: tuple[str, bytes, bytes]) -> bytes:
    """Return a tarball; a member is its name, its type and its content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(content), "/etc/passwd"
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()
