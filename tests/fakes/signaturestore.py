"""One repository in memory with an artifact and its signatures, as verifiers read it."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.remote.oci.errors import RegistryError, RegistryNotFoundError
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository, parse_manifest
from toolkit.verify.subject import Subject

REPOSITORY = Repository(registry="registry.test", name="acme/app")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass
class SignatureStore:
    """Implements the store that verifiers read; ``failing`` names methods that fail."""

    artifact: bytes
    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.put_manifest(self.artifact)

    @property
    def digest(self) -> str:
        return digest_of(self.artifact)

    @property
    def subject(self) -> Subject:
        descriptor = parse_manifest(self.artifact).descriptor
        return Subject(store=self, repository=REPOSITORY, descriptor=descriptor)

    def put_manifest(self, raw: bytes, *, tag: str = "") -> str:
        digest = digest_of(raw)
        self.manifests[digest] = raw
        if tag:
            self.tags[tag] = digest
        return digest

    def put_blob(self, data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        digest = digest_of(data)
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data)} | more

    def attach(
        self,
        data: bytes,
        media_type: str,
        *,
        artifact_type: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> str:
        """Put a blob behind a manifest that refers to the artifact; it may claim another type."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "artifactType": artifact_type or media_type,
            "config": self.put_blob(b"{}", "application/vnd.oci.empty.v1+json"),
            "layers": [self.put_blob(data, media_type)],
            "subject": {
                "mediaType": _MANIFEST,
                "digest": self.digest,
                "size": len(self.artifact),
            },
            "annotations": dict(annotations or {}),
        }
        return self.put_manifest(json.dumps(manifest).encode())

    def tag_signatures(self, *layers: dict[str, Any]) -> str:
        """Put layers of the old form behind the tag that they are found by."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": self.put_blob(b"{}", "application/vnd.oci.image.config.v1+json"),
            "layers": list(layers),
        }
        tag = self.digest.replace(":", "-") + ".sig"
        return self.put_manifest(json.dumps(manifest).encode(), tag=tag)

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:  # noqa: ARG002
        self._count("resolve")
        if reference not in self.tags:
            raise RegistryNotFoundError(f"no tag '{reference}'")
        raw = self.manifests[self.tags[reference]]
        return Descriptor(media_type=_MANIFEST, digest=digest_of(raw), size=len(raw))

    async def manifest(self, repository: Repository, digest: str) -> Manifest:  # noqa: ARG002
        self._count("manifest")
        if digest not in self.manifests:
            raise RegistryNotFoundError(f"no manifest '{digest}'")
        return parse_manifest(self.manifests[digest])

    async def referrers(
        self,
        repository: Repository,  # noqa: ARG002  # there is one
        digest: str,
        *,
        artifact_type: str = "",  # noqa: ARG002  # all
    ) -> tuple[Descriptor, ...]:
        self._count("referrers")
        found = []
        for own, raw in self.manifests.items():
            document = json.loads(raw)
            if (document.get("subject") or {}).get("digest") == digest:
                found.append(
                    Descriptor(
                        media_type=_MANIFEST,
                        digest=own,
                        size=len(raw),
                        artifact_type=document.get("artifactType", ""),
                        annotations=document.get("annotations", {}),
                    )
                )
        return tuple(found)

    async def read_blob(
        self,
        repository: Repository,  # noqa: ARG002  # there is one
        descriptor: Descriptor,
        *,
        limit: int,
    ) -> bytes:
        self._count("read_blob")
        data = self.blobs.get(descriptor.digest)
        if data is None:
            raise RegistryNotFoundError(f"no blob '{descriptor.digest}'")
        if digest_of(data) != descriptor.digest or len(data) != descriptor.size:
            raise RegistryError("the blob is not what its digest says")
        if len(data) > limit:
            raise RegistryError(f"the blob is larger than {limit} bytes")
        return data

    def to_json(self) -> str:
        """Return it all as text; everything in it is JSON itself."""
        return json.dumps(
            {
                "artifact": self.artifact.decode(),
                "tags": {tag: self.manifests[digest].decode() for tag, digest in self.tags.items()},
                "manifests": sorted(raw.decode() for raw in self.manifests.values()),
                "blobs": sorted(blob.decode() for blob in self.blobs.values()),
            },
            indent=1,
        )

    def _count(self, method: str) -> None:
        self.counts[method] += 1
        if method in self.failing:
            raise RegistryError(f"the registry fails at {method}")


def from_json(path: Path) -> SignatureStore:
    """Read what ``to_json`` wrote."""
    document = json.loads(path.read_text())
    store = SignatureStore(document["artifact"].encode())
    for raw in document["manifests"]:
        store.put_manifest(raw.encode())
    for tag, raw in document["tags"].items():
        store.put_manifest(raw.encode(), tag=tag)
    for blob in document["blobs"]:
        store.blobs[digest_of(blob.encode())] = blob.encode()
    return store
