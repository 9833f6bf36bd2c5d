"""An OCI registry in memory: pull and push, referrers, sign-in, and faults on demand.

``FakeRegistry`` is an async context manager. ``registry.push("team/app", "v1", [layer])`` makes an
artifact without HTTP; real tools push over HTTP. ``registry.counts["HEAD manifests"]`` tells how
often something was asked for. Faults are attributes, to be set while it runs.
"""

import asyncio
import base64
import gzip
import hashlib
import io
import json
import secrets
import ssl
import tarfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from tests.fakes.serving import Seen, serving

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
FLUX_CONFIG = "application/vnd.cncf.flux.config.v1+json"
FLUX_CONTENT = "application/vnd.cncf.flux.content.v1.tar+gzip"
HELM_CONFIG = "application/vnd.cncf.helm.config.v1+json"
HELM_CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

Descriptor = dict[str, Any]
"""A descriptor as JSON: mediaType, digest, size and more."""


@dataclass(slots=True)
class Faults:
    """What the registry does wrong. Kinds are manifests, blobs, tags, referrers, token."""

    hook: Callable[[web.Request, str], Awaitable[web.StreamResponse | None]] | None = None
    """Answer instead of the registry, given the request and its kind; ``None`` lets it pass."""
    statuses: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    """Answer the next request of a kind with a status and headers, once for each entry."""
    digest_header: str | None = None
    """Send this as ``Docker-Content-Digest``; empty: send none."""
    content: dict[str, bytes] = field(default_factory=dict)
    """Serve other bytes for a digest or tag."""
    truncate: bool = False
    """Hang up in the middle of a blob."""
    endless: str = ""
    """Never end a body of this kind (manifests, blobs, token) or a list (tags, referrers)."""
    listing: str = ""
    """How lists of tags are unlike the specification: in another ``order``, or what follows the
    ``last`` tag cannot be asked, or is ``refused``."""
    redirect: dict[str, str] = field(default_factory=dict)
    """Send requests of a kind to the same path at this base URL."""
    seconds_per_byte: float = 0.0
    """Answer one byte at a time."""
    realm: str = ""
    """Name this token service instead of our own."""
    scope: str | None = None
    """Suggest this scope for tokens."""
    next_page: str = ""
    """Say that the next page of every list is here."""
    inner: str = ""
    """Say that the next page of a list of tags is at this origin."""
    longest: int = 0
    """Refuse to list more tags than this at once."""


class FakeRegistry:
    """Serves everybody, or those with a login: by ``basic``, or by ``bearer`` with tokens.

    ``referrers`` is whether there is a referrers API; without, pushes keep the fallback tag.
    ``anonymous`` is whether the token service gives tokens without a login.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        basic: tuple[str, str] | None = None,
        bearer: tuple[str, str] | None = None,
        anonymous: bool = False,
        referrers: bool = True,
        page: int = 1000,
        host: str = "localhost",
    ) -> None:
        self.faults = Faults()
        self.seen: list[Seen] = []
        self.counts: Counter[str] = Counter()
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        """(repository, digest) to media type and bytes."""
        self.tags: dict[str, dict[str, str]] = {}
        """Repository to tags to digests."""
        self.tokens: set[str] = set()
        self.identity_tokens: set[str] = set()
        self.token_seconds = 300
        self.entity_tags = False
        """Whether lists of tags have an entity tag, and conditional requests are answered."""
        self.has_referrers = referrers
        self.host = ""
        self.base = ""
        self._tls = tls
        self._basic = basic
        self._bearer = bearer
        self._anonymous = anonymous
        self.page = page
        self._name = host
        self._uploads: dict[str, bytes] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=1 << 30)
        for method, path, handler in (
            ("GET", "/token", self._token),
            ("POST", "/token", self._token),
            ("GET", "/v2/", self._ping),
            ("*", "/v2/{name:.+}/manifests/{reference}", self._manifest),
            ("POST", "/v2/{name:.+}/blobs/uploads/", self._begin),
            ("*", "/v2/{name:.+}/blobs/uploads/{upload}", self._upload),
            ("*", "/v2/{name:.+}/blobs/{digest}", self._blob),
            ("GET", "/v2/{name:.+}/tags/list", self._list_tags),
            ("GET", "/v2/{name:.+}/referrers/{digest}", self._list_referrers),
        ):
            application.router.add_route(method, path, self._wrapped(handler))
        port = await self._open.enter_async_context(serving(application, tls=self._tls))
        self.host = f"{self._name}:{port}"
        self.base = f"{'https' if self._tls else 'http'}://{self.host}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def url(self, name: str) -> str:
        """Return the address of a repository, as in ``spec.url``."""
        return f"oci://{self.host}/{name}"

    def dockerconfig(self, username: str, password: str) -> bytes:
        """Return a docker config.json with a login here."""
        auth = base64.b64encode(f"{username}:{password}".encode()).decode()
        return json.dumps({"auths": {self.host: {"auth": auth}}}).encode()

    def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> Descriptor:
        """Keep a blob and return its descriptor."""
        digest = _digest(data)
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def put_manifest(
        self, name: str, raw: bytes, *, tag: str = "", media_type: str = OCI_MANIFEST
    ) -> Descriptor:
        """Keep a manifest or an index as it is, and return its descriptor."""
        digest = _digest(raw)
        self.manifests[name, digest] = (media_type, raw)
        if tag:
            self.tags.setdefault(name, {})[tag] = digest
        self._note_subject(name, raw)
        return {"mediaType": media_type, "digest": digest, "size": len(raw)}

    def push(  # noqa: PLR0917  # parts of an artifact
        self,
        name: str,
        tag: str,
        layers: Iterable[bytes | Descriptor] = (),
        media_type: str = FLUX_CONTENT,
        config: bytes = b"{}",
        config_type: str = FLUX_CONFIG,
        *,
        annotations: Mapping[str, str] | None = None,
        subject: Descriptor | None = None,
        artifact_type: str = "",
    ) -> Descriptor:
        """Make an artifact, tagged unless ``tag`` is empty; layers are bytes or descriptors."""
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": self.put_blob(config, config_type),
            "layers": [
                self.put_blob(layer, media_type) if isinstance(layer, bytes) else layer
                for layer in layers
            ],
        }
        optional = {"annotations": annotations, "subject": subject, "artifactType": artifact_type}
        manifest |= {key: value for key, value in optional.items() if value}
        return self.put_manifest(name, json.dumps(manifest).encode(), tag=tag)

    def index(self, name: str, tag: str, manifests: Iterable[Descriptor]) -> Descriptor:
        """Make an index of manifests, which may carry a platform."""
        document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": list(manifests)}
        raw = json.dumps(document).encode()
        return self.put_manifest(name, raw, tag=tag, media_type=OCI_INDEX)

    def _note_subject(self, name: str, raw: bytes) -> None:
        """Keep the fallback tag up to date for a manifest that refers to another."""
        try:
            document = json.loads(raw)
        except ValueError:
            return
        subject = document.get("subject") if isinstance(document, dict) else None
        if isinstance(subject, dict) and not self.has_referrers:
            digest = str(subject.get("digest"))
            self.index(name, digest.replace(":", "-"), self._referring(name, digest))

    def _referring(self, name: str, digest: str) -> list[Descriptor]:
        found = []
        for (repository, own), (media_type, raw) in list(self.manifests.items()):
            try:
                document = json.loads(raw)
            except ValueError:
                continue
            if repository != name or (document.get("subject") or {}).get("digest") != digest:
                continue
            config = (document.get("config") or {}).get("mediaType", "")
            found.append(
                {
                    "mediaType": media_type,
                    "digest": own,
                    "size": len(raw),
                    "artifactType": document.get("artifactType") or config,
                    "annotations": document.get("annotations") or {},
                }
            )
        return found

    def _wrapped(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Record a request, and apply sign-in and faults before it is answered."""

        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            kind = _kind(request.path)
            self.seen.append(Seen(request.method, request.path_qs, dict(request.headers), body))
            self.counts[f"{request.method} {kind}"] += 1
            if kind != "token" and (refusal := self._refuse(request)):
                return refusal
            if self.faults.hook and (answer := await self.faults.hook(request, kind)):
                return answer
            for place, (wanted, status, headers) in enumerate(self.faults.statuses):
                if wanted == kind:
                    del self.faults.statuses[place]
                    return web.Response(status=status, headers=headers)
            if kind in self.faults.redirect:
                raise web.HTTPTemporaryRedirect(self.faults.redirect[kind] + request.path_qs)
            return await handler(request)

        return handle

    def _refuse(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization", "")
        if self._basic:
            if given == _basic(*self._basic):
                return None
            challenge = 'Basic realm="registry"'
        elif self._bearer:
            if given.removeprefix("Bearer ") in self.tokens:
                return None
            name = request.match_info.get("name", "")
            realm = self.faults.realm or f"{self.base}/token"
            challenge = f'Bearer realm="{realm}",service="{self._name}"'
            scope = f"repository:{name}:pull" if self.faults.scope is None else self.faults.scope
            challenge += f',scope="{scope}"' if name else ""
        else:
            return None
        return _error(401, "UNAUTHORIZED", {"WWW-Authenticate": challenge})

    async def _token(self, request: web.Request) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if request.method == "POST":
            form = await request.post()
            allowed = form.get("refresh_token") in self.identity_tokens
        else:
            allowed = bool(self._bearer and given == _basic(*self._bearer))
            allowed = allowed or (self._anonymous and not given)
        if not allowed:
            return _error(401, "UNAUTHORIZED")
        token = secrets.token_hex(16)
        self.tokens.add(token)
        answer = json.dumps({"token": token, "expires_in": self.token_seconds}).encode()
        return await self._send(request, answer, "token", "application/json")

    async def _ping(self, request: web.Request) -> web.StreamResponse:  # noqa: ARG002  # a handler
        return web.json_response({})

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        name, reference = request.match_info["name"], request.match_info["reference"]
        if request.method == "PUT":
            return await self._put_manifest(request, name, reference)
        digest = self.tags.get(name, {}).get(reference, reference)
        found = self.manifests.get((name, digest))
        if found is None:
            return _error(404, "MANIFEST_UNKNOWN")
        media_type, raw = found
        raw = self.faults.content.get(reference, raw)
        told = digest if self.faults.digest_header is None else self.faults.digest_header
        headers = {"Docker-Content-Digest": told} if told else {}
        return await self._send(request, raw, "manifests", media_type, headers)

    async def _put_manifest(
        self, request: web.Request, name: str, reference: str
    ) -> web.StreamResponse:
        raw, media_type = await request.read(), request.content_type
        tag = "" if ":" in reference else reference
        stored = self.put_manifest(name, raw, tag=tag, media_type=media_type)
        headers = {"Docker-Content-Digest": stored["digest"], "Location": request.path}
        if self.has_referrers and (subject := json.loads(raw).get("subject")):
            headers["OCI-Subject"] = subject["digest"]
        return web.Response(status=201, headers=headers)

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        digest = request.match_info["digest"]
        data = self.blobs.get(digest)
        if data is None:
            return _error(404, "BLOB_UNKNOWN")
        data = self.faults.content.get(digest, data)
        return await self._send(request, data, "blobs", "application/octet-stream")

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        mounted = request.query.get("mount", "")
        if mounted in self.blobs:
            return web.Response(status=201, headers={"Docker-Content-Digest": mounted})
        body = await request.read()
        if digest := request.query.get("digest"):
            return self._stored(digest, body)
        upload = secrets.token_hex(8)
        self._uploads[upload] = b""
        return web.Response(status=202, headers={"Location": f"{request.path}{upload}"})

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        upload = request.match_info["upload"]
        self._uploads[upload] += await request.read()
        if request.method == "PUT":
            return self._stored(request.query["digest"], self._uploads.pop(upload))
        last = max(len(self._uploads[upload]) - 1, 0)
        headers = {"Location": request.path, "Range": f"0-{last}"}
        return web.Response(status=202, headers=headers)

    def _stored(self, digest: str, data: bytes) -> web.Response:
        if _digest(data) != digest:
            return _error(400, "DIGEST_INVALID")
        self.blobs[digest] = data
        return web.Response(status=201, headers={"Docker-Content-Digest": digest})

    async def _list_tags(self, request: web.Request) -> web.StreamResponse:
        name, last = request.match_info["name"], request.query.get("last", "")
        if name not in self.tags:
            return _error(404, "NAME_UNKNOWN")
        size = min(int(request.query.get("n", self.page)), self.page)
        if 0 < self.faults.longest < int(request.query.get("n", "0")):
            return _error(400, "TOO_MANY_TAGS_REQUESTED")
        listing, start = self.faults.listing, int(request.query.get("from", "0"))
        if listing == "refused" and last:
            return _error(400, "UNSUPPORTED")
        known = list(self.tags[name]) if listing == "order" else sorted(self.tags[name])
        left = [tag for tag in known[start:] if listing == "last" or tag > last]
        page, more = left[:size], len(left) > size
        headers = {}
        if more:
            follows = f"from={start + size}" if listing else f"last={page[-1]}"
            follows = f"{self.faults.inner}/v2/{name}/tags/list?n={size}&{follows}"
            headers["Link"] = f'<{follows}>; rel="next"'
        if self.faults.endless == "tags":
            page = [f"t{secrets.token_hex(8)}"]
            headers["Link"] = f'</v2/{name}/tags/list?last={page[-1]}>; rel="next"'
        if self.faults.next_page:
            headers["Link"] = f'<{self.faults.next_page}>; rel="next"'
        body = json.dumps({"name": name, "tags": page}).encode()
        if self.entity_tags:
            headers["ETag"] = f'"{_digest(body)}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers=headers)
        return await self._send(request, body, "tags", "application/json", headers)

    async def _list_referrers(self, request: web.Request) -> web.StreamResponse:
        if not self.has_referrers:
            return _error(404, "NOT_FOUND")
        name, digest = request.match_info["name"], request.match_info["digest"]
        found, wanted = self._referring(name, digest), request.query.get("artifactType")
        headers = {}
        if wanted:
            found = [one for one in found if one["artifactType"] == wanted]
            headers["OCI-Filters-Applied"] = "artifactType"
        if self.faults.endless == "referrers":
            found *= 100
            headers["Link"] = f'<{request.path}?page={secrets.token_hex(4)}>; rel="next"'
        if self.faults.next_page:
            headers["Link"] = f'<{self.faults.next_page}>; rel="next"'
        body = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": found})
        return await self._send(request, body.encode(), "referrers", OCI_INDEX, headers)

    async def _send(
        self,
        request: web.Request,
        body: bytes,
        kind: str,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> web.StreamResponse:
        """Answer, under the faults that concern bodies."""
        faults = self.faults
        response = web.StreamResponse(headers={**(headers or {}), "Content-Type": media_type})
        endless = faults.endless == kind and kind in ("manifests", "blobs", "token")
        if not endless:
            response.content_length = len(body)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        if endless:
            while True:
                await response.write(bytes(1 << 16))
        if faults.truncate and kind == "blobs":
            await response.write(body[: len(body) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        if faults.seconds_per_byte:
            for byte in body:
                await response.write(bytes((byte,)))
                await asyncio.sleep(faults.seconds_per_byte)
        else:
            await response.write(body)
        await response.write_eof()
        return response


def tarball(files: Mapping[str, bytes | str]) -> bytes:
    """Return a gzipped tarball of files, as ``flux push artifact`` makes one."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _kind(path: str) -> str:
    if path == "/token":
        return "token"
    return next(
        (kind for kind in ("manifests", "blobs", "tags", "referrers") if f"/{kind}/" in path),
        "ping",
    )


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _error(status: int, code: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = {"errors": [{"code": code, "message": code.lower()}]}
    return web.json_response(body, status=status, headers=headers)
