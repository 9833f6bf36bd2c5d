"""A registry, asked over the distribution API: content counts only if it has its digest.

1. A tag is resolved once, to a digest; everything after that uses the digest.
2. Content that is requested by digest must have it, whatever the registry says in its headers.
   Content that has its digest but is damaged was pushed like that, and is not a failure of the
   registry.
3. A blob is written to the disk as it arrives, ends where its descriptor says, and gets its name
   only if size and digest are correct.
4. Lists are bounded in pages, entries and bytes, and every page is requested from the registry
   itself: of the address of the next page, only path and query count. A registry behind a proxy
   writes its inner address there, or none of its port.
"""

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar
from urllib.parse import quote, urljoin

import aiohttp
import msgspec

from toolkit import untrusted
from toolkit.remote import webaddress
from toolkit.remote.http import http
from toolkit.remote.http.http import Endpoint, Http, HttpError
from toolkit.remote.oci import oci
from toolkit.remote.oci.errors import (
    MalformedError,
    RegistryAuthError,
    RegistryError,
    RegistryNotFoundError,
    RepositoryURLError,
)
from toolkit.remote.oci.exchange import Exchange
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository
from toolkit.remote.oci.tokens import Tokens

__all__ = [
    "Descriptor",
    "Manifest",
    "Registry",
    "RegistryAuthError",
    "RegistryError",
    "RegistryNotFoundError",
    "Repository",
    "RepositoryURLError",
    "Tokens",
]


class Registry:
    """Registries as one identity sees them.

    ``tokens`` are shared by all of a process, so that signing in is learnt once. ``timeout`` is in
    seconds, for each call as a whole.
    """

    def __init__(
        self,
        client: Http,
        endpoint: Endpoint,
        *,
        tokens: Tokens | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._exchange = Exchange(client, endpoint, tokens=tokens or Tokens(), timeout=timeout)

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:
        """Resolve a tag or a digest; this costs one HEAD, or a GET if HEAD returns no digest.

        ``size`` and ``media_type`` are claims of the registry; those in the manifest are reliable.

        Raises:
            RegistryError: see ``toolkit.remote.oci.errors``.
        """
        async with self._exchange.working(f"'{reference}' of '{repository}'"):
            found = await self._head(repository, _reference(reference))
            if found is None:
                return (await self._manifest(repository, reference)).descriptor
        # Rule 2.
        if oci.is_digest(reference) and found.digest != reference:
            raise RegistryError(f"'{repository}' answers with {found.digest} to {reference}")
        return found

    async def manifest(self, repository: Repository, digest: str) -> Manifest:
        """Return the manifest or index with this digest.

        Raises:
            RegistryError: it has another digest.
            MalformedError: it is larger than ``oci.MAX_MANIFEST``, or cannot be understood.
        """
        async with self._exchange.working(f"the manifest {_digest(digest)} of '{repository}'"):
            return await self._manifest(repository, digest)

    async def tags(self, repository: Repository) -> tuple[str, ...]:
        """Return all tags, in the registry's order.

        Raises:
            RegistryError: there are more than ``MAX_TAGS``, or they cannot be listed.
        """
        listed = await self.list_tags(repository)
        return listed.tags if listed else ()

    async def list_tags(self, repository: Repository, *, known: str = "") -> "Listed | None":
        """Return all tags, in the registry's order; None if they equal those of ``known``.

        ``known`` is from an earlier list. A list of several pages has none, because the first page
        does not show changes in the others. A full page may stay unchanged while the next tag
        begins a second page. So in this case the registry is also asked for the tags after its last
        tag.

        Raises:
            RegistryError: an error of ``tags``.
        """
        entity, _, last = known.partition(_LAST)
        async with self._exchange.working(f"the tags of '{repository}'"):
            listed = await self._listed(repository, entity)
            if listed is None and last and not await self._ends(repository, last):
                listed = await self._listed(repository, "")
        return listed

    async def _listed(self, repository: Repository, entity: str) -> "Listed | None":
        """Return the tags; a registry may refuse long pages instead of sending short ones."""
        try:
            return await self._collected(repository, f"tags/list?n={_PAGE}", entity)
        except HttpError as exc:
            if exc.status != 400:
                raise
        return await self._collected(repository, "tags/list", entity)

    async def _collected(self, repository: Repository, path: str, entity: str) -> "Listed | None":
        found: list[str] = []
        tags: Sequence[str] = ()
        new, pages = "", 0
        async for page in self._pages(repository, path, known=entity):
            if page.status == 304 and entity and not pages:
                return None
            tags = _decode(page.body, _Tags).tags or ()
            if len(found) + len(tags) > MAX_TAGS:
                raise MalformedError(f"'{repository}' has more than {MAX_TAGS} tags")
            found += filter(oci.is_tag, tags)
            new, pages = page.entity, pages + 1
        return Listed(tags=tuple(found), known=_known(new, tags) if pages == 1 else "")

    async def _ends(self, repository: Repository, last: str) -> bool:
        """Tell whether no tag follows; False for a registry that does not support the question.

        Such a registry may ignore ``last``, and answer with the first page.
        """
        query = f"tags/list?n={_PAGE}&last={quote(last, safe='')}"
        try:
            async for page in self._pages(repository, query):
                return page.status == 200 and not _decode(page.body, _Tags).tags
        except HttpError as exc:
            if exc.status not in _NO_LAST:
                raise
        return False

    async def referrers(
        self, repository: Repository, digest: str, *, artifact_type: str = ""
    ) -> tuple[Descriptor, ...]:
        """Return the referrers of a digest, such as signatures, of one type or all.

        A registry without the referrers API has them in an index tagged ``sha256-<hex>``.

        Raises:
            RegistryError: they cannot be listed.
            MalformedError: there are more than ``oci.MAX_PARTS``, or the list is damaged.
        """
        async with self._exchange.working(f"the referrers of {_digest(digest)} in '{repository}'"):
            found = await self._referrers(repository, digest, artifact_type)
            if found is None:
                found = list(await self._tagged_referrers(repository, digest))
        return tuple(one for one in found if artifact_type in ("", one.artifact_type))

    async def read_blob(
        self, repository: Repository, descriptor: Descriptor, *, limit: int
    ) -> bytes:
        """Return a blob of at most ``limit`` bytes.

        Raises:
            RegistryError: it has another digest than the descriptor.
            MalformedError: it has that digest and another size, or is too large.
        """
        # Read on to the limit: only the digest shows whether the size or the content is wrong.
        check, parts = _Check(descriptor, limit, end=limit), []
        async with self._exchange.working(f"the blob {descriptor.digest} of '{repository}'"):
            async with self._exchange.ask(
                "GET", repository, f"blobs/{descriptor.digest}"
            ) as answer:
                async for chunk in answer.content.iter_any():
                    check.expect(len(chunk))
                    check.digest(chunk)
                    parts.append(chunk)
            check.finish()
        return b"".join(parts)

    async def blob(
        self, repository: Repository, descriptor: Descriptor, into: Path, *, limit: int
    ) -> None:
        """Write a blob of at most ``limit`` bytes to the file ``into``, which must not exist.

        Raises:
            RegistryError: it has another size or digest than the descriptor, or is too large; then
                there is no file.
            OSError: the disk failed or is full.
        """
        check = _Check(descriptor, limit, end=descriptor.size)
        try:
            with await asyncio.to_thread(into.open, "xb") as file:
                async with self._exchange.working(
                    f"the blob {descriptor.digest} of '{repository}'"
                ):
                    async with self._exchange.ask(
                        "GET", repository, f"blobs/{descriptor.digest}"
                    ) as answer:
                        await _receive(answer.content, check, file)
                    check.finish()
        except FileExistsError:
            raise
        except BaseException:
            await asyncio.shield(asyncio.to_thread(into.unlink, missing_ok=True))
            raise

    async def _head(self, repository: Repository, reference: str) -> Descriptor | None:
        """Return the descriptor from the headers of a manifest; None if they are incomplete."""
        try:
            path = f"manifests/{reference}"
            async with self._exchange.ask("HEAD", repository, path, accept=_ACCEPT) as answer:
                digest = answer.headers.get("Docker-Content-Digest", "").strip()
                size = answer.content_length or 0
                kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        except HttpError as exc:
            if exc.status in _NO_HEAD:
                return None
            raise
        if not oci.is_digest(digest):
            return None
        return Descriptor(media_type=kind, digest=digest, size=size)

    async def _manifest(self, repository: Repository, reference: str) -> Manifest:
        path = f"manifests/{reference}"
        async with self._exchange.ask("GET", repository, path, accept=_ACCEPT) as answer:
            raw = await _body(answer, limit=oci.MAX_MANIFEST)
            kind = answer.headers.get("Content-Type", "")
            told = answer.headers.get("Docker-Content-Digest", "").strip()
        if oci.is_digest(reference):
            _require_digest(raw, reference)
            return oci.parse_manifest(raw, media_type=kind, digest=reference)
        try:
            return oci.parse_manifest(raw, media_type=kind)
        except MalformedError as exc:
            if not oci.is_digest(told):
                raise RegistryError(str(exc)) from exc  # It is unclear what answered.
            _require_digest(raw, told)
            raise

    async def _referrers(
        self, repository: Repository, digest: str, artifact_type: str
    ) -> list[Descriptor] | None:
        """Return the list of the referrers API; None if the registry does not have the API."""
        query = f"?artifactType={quote(artifact_type, safe='')}" if artifact_type else ""
        found: list[Descriptor] = []
        try:
            async for page in self._pages(repository, f"referrers/{digest}{query}"):
                if page.kind not in oci.INDEXES:
                    return None  # A server that answers every URL with its own page.
                found += oci.parse_manifest(page.body, media_type=page.kind).manifests
                if len(found) > oci.MAX_PARTS:
                    raise MalformedError(f"there are more than {oci.MAX_PARTS}")
        except HttpError as exc:
            if exc.status in _NO_REFERRERS:
                return None
            raise
        return found

    async def _tagged_referrers(
        self, repository: Repository, digest: str
    ) -> tuple[Descriptor, ...]:
        try:
            return (await self._manifest(repository, digest.replace(":", "-"))).manifests
        except HttpError as exc:
            if exc.status == 404:
                return ()
            raise

    async def _pages(
        self, repository: Repository, path: str, *, known: str = ""
    ) -> AsyncIterator["_Page"]:
        """Yield the pages of a list (rule 4); with ``known`` the first may be a 304 without any."""
        start = url = self._exchange.url(repository, path)
        left = _MAX_LIST
        for _ in range(_MAX_PAGES):
            async with self._exchange.ask(
                "GET", repository, url, accept=oci.OCI_INDEX, known=known if url == start else ""
            ) as answer:
                body = await _body(answer, limit=min(left, _MAX_PAGE))
                left -= len(body)
                page = _Page(
                    body=body,
                    status=answer.status,
                    kind=answer.headers.get("Content-Type", "").partition(";")[0].strip(),
                    entity=answer.headers.get("ETag", "")[:_LONGEST_ENTITY],
                )
                following = _next(url, answer)
            yield page
            if not following:
                return
            if following == url:
                raise RegistryError("the next page of the list is the page itself")
            url = following
        raise MalformedError(f"the list has more than {_MAX_PAGES} pages")


MAX_TAGS: Final = 200_000
"""Tags of a repository."""
_ACCEPT: Final = ", ".join((*oci.MANIFESTS, *oci.INDEXES))
_NO_HEAD: Final = frozenset({400, 405, 406, 501})
_NO_REFERRERS: Final = frozenset({400, 404, 405, 406, 501})
_NO_LAST: Final = frozenset({400, 404, 405, 406, 501})
_LAST: Final = "\n"
"""Between an entity tag, which has no line break, and the last tag of its list."""
_PAGE: Final = 1000
_ROUND: Final = (50, 64)
_MAX_PAGES: Final = 500
_MAX_PAGE: Final = 8 << 20
_LONGEST_ENTITY: Final = 1024
_MAX_LIST: Final = 32 << 20
"""Bytes of all pages of a list: as many tags as may be, each as long as may be."""
_CHUNK: Final = 1 << 20

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The tags of a repository, and what to ask by whether they have changed; it may be empty."""

    tags: tuple[str, ...]
    known: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """A page of a list, with its media type and entity tag."""

    body: bytes
    status: int
    kind: str
    entity: str


class _Tags(msgspec.Struct):
    tags: list[str] | None = None


class _Check:
    """Compares content with its descriptor (rules 2 and 3); reads at most ``end`` bytes."""

    def __init__(self, descriptor: Descriptor, limit: int, *, end: int) -> None:
        algorithm, _, self._expected = _digest(descriptor.digest).partition(":")
        if descriptor.size > limit:
            raise MalformedError(
                f"the blob {descriptor.digest} has {descriptor.size} bytes, more than {limit}"
            )
        self._hash = hashlib.new(algorithm)
        self._size = descriptor.size
        self._limit = limit
        self._end = end
        self._seen = 0

    def expect(self, count: int) -> None:
        """Count bytes that have come, before anything is done with them."""
        self._seen += count
        if self._seen > self._end:
            raise self._too_long(MalformedError if self._seen > self._limit else RegistryError)

    def digest(self, data: bytes) -> None:
        """Digest bytes that were expected."""
        self._hash.update(data)

    def finish(self) -> None:
        """Require that everything has come."""
        actual = self._hash.hexdigest()
        kind = MalformedError if actual == self._expected else RegistryError
        if self._seen > self._size:
            raise self._too_long(kind)
        if self._seen < self._size:
            raise kind(f"it ends after {self._seen} of {self._size} bytes")
        if actual != self._expected:
            raise RegistryError(f"it has the digest {self._hash.name}:{actual}")

    def _too_long(self, kind: type[RegistryError]) -> RegistryError:
        return kind(f"it is longer than the {self._size} bytes of its descriptor")


def _require_digest(content: bytes, digest: str) -> None:
    """Refuse content that does not have the requested digest (rule 2)."""
    algorithm, _, expected = digest.partition(":")
    actual = hashlib.new(algorithm, content).hexdigest()
    if actual != expected:
        raise RegistryError(f"it has the digest {algorithm}:{actual}")


async def _body(answer: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """Return a body; if it is too long, the error is about the pushed content."""
    try:
        return await http.read(answer, limit=limit)
    except HttpError as exc:
        raise MalformedError(str(exc)) from exc


async def _receive(content: aiohttp.StreamReader, check: _Check, file: IO[bytes]) -> None:
    """Write a body to a file, a piece at a time and off the event loop."""

    def keep(piece: bytes) -> None:
        check.digest(piece)
        file.write(piece)

    pending = bytearray()
    async for chunk in content.iter_any():
        check.expect(len(chunk))
        pending += chunk
        if len(pending) >= _CHUNK:
            await asyncio.to_thread(keep, bytes(pending))
            pending.clear()
    await asyncio.to_thread(keep, bytes(pending))


def _known(entity: str, tags: Sequence[str]) -> str:
    """Return the entity tag to check whether a list of one page has changed; empty if impossible.

    The question for tags after the last one works only if tags are in order (distribution-spec 1.1,
    "Listing Tags"): otherwise a new tag could be before the last one.
    """
    if not entity or not _may_fill_a_page(len(tags)):
        return entity
    in_order = all(one < other for one, other in itertools.pairwise(tags))
    return f"{entity}{_LAST}{tags[-1]}" if in_order and oci.is_tag(tags[-1]) else ""


def _may_fill_a_page(count: int) -> bool:
    """Tell whether a page with ``count`` entries may be full; limits of registries are round."""
    return count >= _PAGE or any(count and count % each == 0 for each in _ROUND)


def _next(url: str, answer: aiohttp.ClientResponse) -> str:
    """Return the URL of the next page (RFC 8288) on the registry, or nothing on the last."""
    try:
        link = answer.links.get("next")
        if not link:
            return ""
        there = webaddress.read(urljoin(url, str(link["url"])))
        return str(webaddress.read(url).origin().join(there.relative()))
    except ValueError as exc:
        raise RegistryError("the next page of the list has no readable address") from exc


def _reference(text: str) -> str:
    if not oci.is_tag(text) and not oci.is_digest(text):
        raise RegistryError(f"'{ascii(text[:200])[1:-1]}' is neither a tag nor a digest")
    return text


def _digest(text: str) -> str:
    if not oci.is_digest(text):
        raise RegistryError(f"'{ascii(text[:200])[1:-1]}' is not a digest")
    return text


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return untrusted.load_json(data, kind, size=_MAX_PAGE)
    except untrusted.UntrustedError as exc:
        raise RegistryError(f"the answer cannot be read: {exc}") from exc
