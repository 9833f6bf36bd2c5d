"""Push to a registry: blobs, manifests under tags, and what refers to a manifest.

1. What was pushed is asked for again by its digest: a registry that keeps something else is told.
2. A blob that is there is not sent again. It is sent from the disk, in one request.
3. An upload goes to the registry itself; no answer of it leads our credentials elsewhere.
4. A registry without the referrers API gets the list under the tag that clients then look at
   (distribution-spec, "Referrers Tag Schema").
"""

import hashlib
import json
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from toolkit import untrusted
from toolkit.objects import Json
from toolkit.remote import webaddress
from toolkit.remote.http.http import Endpoint, Http, HttpError
from toolkit.remote.oci import oci
from toolkit.remote.oci.errors import RegistryError, RegistryNotFoundError
from toolkit.remote.oci.exchange import Exchange
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository
from toolkit.remote.oci.registry import Registry
from toolkit.remote.oci.tokens import Tokens


class Publisher:
    """A registry as one identity that may push sees it; ``timeout`` is in seconds, for a call."""

    def __init__(
        self,
        client: Http,
        endpoint: Endpoint,
        *,
        tokens: Tokens | None = None,
        timeout: float = 60.0,
    ) -> None:
        tokens = tokens or Tokens(actions="pull,push")
        self._exchange = Exchange(client, endpoint, tokens=tokens, timeout=timeout)
        self.registry = Registry(client, endpoint, tokens=tokens, timeout=timeout)

    async def blob(self, repository: Repository, content: bytes | Path, digest: str) -> None:
        """Push a blob, from memory or from a file, unless the registry has it (rule 2).

        Raises:
            RegistryError: see ``toolkit.remote.oci.errors``.
        """
        what = f"the blob {digest} to '{repository}'"
        async with self._exchange.working(what, doing="push"):
            if await self._has(repository, digest):
                return
            async with self._exchange.ask("POST", repository, "blobs/uploads/") as answer:
                location = answer.headers.get("Location", "")
                place = self._upload(repository, location, digest)
            async with self._exchange.ask(
                "PUT", repository, place, body=content, media_type="application/octet-stream"
            ):
                pass
            if not await self._has(repository, digest):
                raise RegistryError("the registry accepted it, but does not serve it")

    async def manifest(self, repository: Repository, raw: bytes, tag: str = "") -> Descriptor:
        """Push a manifest or an index under a tag, or under its digest alone.

        Raises:
            RegistryError: see ``toolkit.remote.oci.errors``.
        """
        parsed = oci.parse_manifest(raw)
        listed = await self._put(repository, parsed, tag or parsed.descriptor.digest)
        if parsed.subject is not None and listed != parsed.subject.digest:
            await self._refer(repository, parsed.subject.digest, _entry(parsed))
        return parsed.descriptor

    async def tag(self, repository: Repository, reference: str, tag: str) -> Descriptor:
        """Point a tag at the manifest of another reference, byte for byte.

        Raises:
            RegistryError: see ``toolkit.remote.oci.errors``.
        """
        found = await self.registry.resolve(repository, reference)
        await self._put(repository, await self.registry.manifest(repository, found.digest), tag)
        return found

    async def _put(self, repository: Repository, manifest: Manifest, reference: str) -> str:
        """Push a manifest; return the subject for which the registry lists it."""
        digest = manifest.descriptor.digest
        what = f"'{reference}' to '{repository}'"
        async with self._exchange.working(what, doing="push"):
            async with self._exchange.ask(
                "PUT",
                repository,
                f"manifests/{reference}",
                body=manifest.raw,
                media_type=manifest.media_type,
            ) as answer:
                listed = str(answer.headers.get("OCI-Subject", ""))
            kept = await self.registry.resolve(repository, reference)
            if kept.digest != digest:  # Rule 1.
                raise RegistryError(f"it has {kept.digest} there instead of {digest}")
        return listed

    async def _has(self, repository: Repository, digest: str) -> bool:
        try:
            async with self._exchange.ask("HEAD", repository, f"blobs/{digest}"):
                return True
        except HttpError as exc:
            if exc.status == 404:
                return False
            raise

    def _upload(self, repository: Repository, location: str, digest: str) -> str:
        """Return where to send a blob (rule 3)."""
        start = self._exchange.url(repository, "blobs/uploads/")
        try:
            found = webaddress.read(urljoin(start, location), encoded=True)
            same = bool(location) and found.origin() == webaddress.read(start).origin()
        except ValueError:
            same = False
        if not same:
            raise RegistryError("the registry names another server for the upload, or none")
        return str(found.update_query(digest=digest))

    async def _refer(self, repository: Repository, subject: str, entry: Json) -> None:
        """List a manifest as one that refers to ``subject`` (rule 4)."""
        tag = subject.replace(":", "-")
        entries: list[Json] = []
        try:
            found = await self.registry.resolve(repository, tag)
            index = await self.registry.manifest(repository, found.digest)
            entries = untrusted.load_json(index.raw, Json, size=oci.MAX_MANIFEST)["manifests"]
        except RegistryNotFoundError:
            pass
        except KeyError as exc:
            raise RegistryError(
                f"the tag '{tag}' of '{repository}' is not a list of referrers"
            ) from exc
        if all(each["digest"] != entry["digest"] for each in entries):
            document = {"schemaVersion": 2, "mediaType": oci.OCI_INDEX}
            raw = json.dumps({**document, "manifests": [*entries, entry]}).encode()
            await self.manifest(repository, raw, tag)


def described(content: bytes, media_type: str) -> Json:
    """Return the descriptor of bytes, as JSON."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


EMPTY: Final = b"{}"
EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
"""The config of an artifact that has none (image-spec, "Guidance for an Empty Descriptor")."""


def _entry(manifest: Manifest) -> Json:
    """Return the entry of a manifest in the list of referrers."""
    config = manifest.config.media_type if manifest.config else ""
    entry: Json = {
        "mediaType": manifest.media_type,
        "digest": manifest.descriptor.digest,
        "size": len(manifest.raw),
        "artifactType": manifest.artifact_type or config,
    }
    return entry | ({"annotations": dict(manifest.annotations)} if manifest.annotations else {})
