"""OCI artifacts as values: repositories, descriptors, manifests (image-spec and distribution-spec).

Manifests are untrusted JSON. Their number and length are limited, a digest must have a supported
algorithm, and a document that is both a manifest and an index is refused: a user who signs one of
the two interpretations must not get the other (CVE-2021-41190). Nothing here does IO.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from toolkit import untrusted
from toolkit.remote.oci.errors import MalformedError, RepositoryURLError

OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
DOCKER_INDEX: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
INDEXES: Final = (OCI_INDEX, DOCKER_INDEX)
MANIFESTS: Final = (OCI_MANIFEST, DOCKER_MANIFEST)

MAX_MANIFEST: Final = 4 << 20
"""Bytes of a manifest (distribution-spec: registries should accept as many)."""
MAX_PARTS: Final = 2000
"""Layers of a manifest, or manifests of an index."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository in a registry: host (with port) as the user wrote it, and name."""

    registry: str
    name: str

    @classmethod
    def parse(cls, url: str) -> "Repository":
        """Parse ``oci://<host>[:<port>]/<name>``, without tag or digest.

        Raises:
            RepositoryURLError: the text is something else.
        """
        match = _URL.fullmatch(url) if len(url) <= _LONGEST_URL else None
        if match is None or not 0 < int(match["port"] or 443) < 65536:
            raise RepositoryURLError(
                f"'{ascii(url[:_LONGEST_URL])[1:-1]}' is not a repository: write it as "
                "'oci://<host>/<name>', in lower case, without tag, digest or credentials"
            )
        registry, name = match["registry"].lower(), match["name"]
        if registry in _HUB and "/" not in name:
            name = f"library/{name}"
        return cls(registry=registry, name=name)

    @property
    def host(self) -> str:
        """Return where the registry's API is, which for Docker Hub is not its name."""
        return "registry-1.docker.io" if self.registry in _HUB else self.registry

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The platform of an entry of an index."""

    os: str = ""
    architecture: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """Content by its digest; ``size`` is in bytes, 0 where a registry did not tell."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    artifact_type: str = ""
    platform: Platform | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest or an index whose bytes have the digest of ``descriptor``."""

    descriptor: Descriptor
    raw: bytes = field(repr=False)
    media_type: str
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] = ()
    manifests: tuple[Descriptor, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    subject: Descriptor | None = None
    artifact_type: str = ""

    @property
    def is_index(self) -> bool:
        """Tell whether this lists manifests instead of layers."""
        return self.media_type in INDEXES


def parse_manifest(raw: bytes, *, media_type: str = "", digest: str = "") -> Manifest:
    """Parse a manifest or an index; ``media_type`` is the one of the registry.

    ``digest`` is the verified digest of the content, if it is not SHA-256.

    Raises:
        MalformedError: it is neither, both, or exceeds a limit.
    """
    if len(raw) > MAX_MANIFEST:
        raise MalformedError(f"the manifest is larger than {MAX_MANIFEST >> 20} MiB")
    try:
        document = untrusted.load_json(raw, _Document, size=MAX_MANIFEST)
    except untrusted.UntrustedError as exc:
        raise MalformedError(f"the manifest cannot be read: {exc}") from exc
    kind = _kind(document, media_type)
    if max(len(document.layers or ()), len(document.manifests or ())) > MAX_PARTS:
        raise MalformedError(f"the manifest has more than {MAX_PARTS} parts")
    return Manifest(
        descriptor=Descriptor(
            media_type=kind,
            digest=digest or f"sha256:{hashlib.sha256(raw).hexdigest()}",
            size=len(raw),
            artifact_type=document.artifactType,
        ),
        raw=raw,
        media_type=kind,
        config=document.config.value() if document.config else None,
        layers=tuple(layer.value() for layer in document.layers or ()),
        manifests=tuple(manifest.value() for manifest in document.manifests or ()),
        annotations=document.annotations or {},
        subject=document.subject.value() if document.subject else None,
        artifact_type=document.artifactType,
    )


def is_digest(text: str) -> bool:
    """Tell whether this is a digest that can be checked: SHA-256 or SHA-512 in lower-case hex."""
    return _DIGEST.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Tell whether this can be a tag."""
    return _TAG.fullmatch(text) is not None


_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HUB: Final = ("docker.io", "index.docker.io")
_LONGEST_URL: Final = 512
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_URL: Final = re.compile(
    rf"oci://(?P<registry>(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{{1,5}}))?)"
    rf"/(?P<name>{_COMPONENT}(?:/{_COMPONENT})*)/?"
)


class _Platform(msgspec.Struct):
    os: str = ""
    architecture: str = ""
    variant: str = ""


class _Descriptor(msgspec.Struct):
    """A descriptor as it is written; the names are image-spec's."""

    digest: str
    size: int
    mediaType: str = ""  # noqa: N815  # the field's name in JSON
    annotations: dict[str, str] | None = None
    artifactType: str = ""  # noqa: N815  # the field's name in JSON
    platform: _Platform | None = None

    def value(self) -> Descriptor:
        if not is_digest(self.digest) or self.size < 0:
            raise MalformedError(
                "the manifest has a descriptor with a digest that cannot be checked"
            )
        platform = self.platform
        return Descriptor(
            media_type=self.mediaType,
            digest=self.digest,
            size=self.size,
            annotations=self.annotations or {},
            artifact_type=self.artifactType,
            platform=Platform(
                os=platform.os, architecture=platform.architecture, variant=platform.variant
            )
            if platform
            else None,
        )


class _Document(msgspec.Struct):
    """A manifest or an index as it is written."""

    schemaVersion: int = 0  # noqa: N815  # the field's name in JSON
    mediaType: str = ""  # noqa: N815  # the field's name in JSON
    artifactType: str = ""  # noqa: N815  # the field's name in JSON
    config: _Descriptor | None = None
    layers: list[_Descriptor] | None = None
    manifests: list[_Descriptor] | None = None
    annotations: dict[str, str] | None = None
    subject: _Descriptor | None = None


def _kind(document: _Document, told: str) -> str:
    """Return the media type; the document's own word counts, and its form must agree."""
    if document.schemaVersion != 2:
        raise MalformedError("the manifest is not of schema version 2")
    listing = document.manifests is not None
    if listing and (document.layers is not None or document.config is not None):
        raise MalformedError("the manifest is both an image and an index")
    told = told.partition(";")[0].strip().lower()
    kind = document.mediaType or told
    if kind not in (*INDEXES, *MANIFESTS):
        # Some registries report text/plain, so the form decides.
        kind = OCI_INDEX if listing else OCI_MANIFEST
    if (kind in INDEXES) != listing:
        raise MalformedError("the manifest's media type contradicts its content")
    return kind
