"""An artifact as Flux writes one: media types, annotations and config (fluxcd/pkg ``oci``)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli import errors
from toolkit.remote.oci import oci
from toolkit.remote.oci.publisher import described

CONFIG: Final = "application/vnd.cncf.flux.config.v1+json"
CONTENT: Final = "application/vnd.cncf.flux.content.v1.tar+gzip"
CREATED: Final = "org.opencontainers.image.created"
SOURCE: Final = "org.opencontainers.image.source"
REVISION: Final = "org.opencontainers.image.revision"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A packed layer: its digest, that of the tarball in it, and its size in bytes."""

    file: Path
    digest: str
    unpacked: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A manifest and the config that it names."""

    manifest: bytes
    config: bytes
    config_digest: str


def make(content: Content, annotations: Mapping[str, str]) -> Document:
    """Return the manifest of one layer; ``annotations`` have the time of creation."""
    config = json.dumps(
        {
            "architecture": "",
            "config": {},
            "created": annotations[CREATED],
            "os": "",
            "rootfs": {"type": "layers", "diff_ids": [content.unpacked]},
        }
    ).encode()
    named = described(config, CONFIG)
    manifest = {
        "schemaVersion": 2,
        "mediaType": oci.OCI_MANIFEST,
        "config": named,
        "layers": [{"mediaType": CONTENT, "size": content.size, "digest": content.digest}],
        "annotations": dict(sorted(annotations.items())),
    }
    return Document(
        manifest=json.dumps(manifest).encode(), config=config, config_digest=named["digest"]
    )


def annotations(
    source: str, revision: str, pairs: Iterable[str], *, now: datetime
) -> dict[str, str]:
    """Return the annotations of the artifact; ``pairs`` are the user's own, as ``key=value``.

    Raises:
        UsageError: a pair is invalid.
    """
    made = {CREATED: time(now), SOURCE: source, REVISION: revision}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise errors.UsageError(f"--annotations: {pair!r} must be KEY=VALUE")
        made[key] = value
    return made


def time(moment: datetime) -> str:
    """Return a time as RFC 3339 has it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
