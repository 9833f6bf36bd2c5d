"""Make an image without a container daemon: an OCI layout in a tar archive.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md. The same content gives the
same bytes. ``archive`` is for images of a few static programs, such as the node's own pause image;
``pack`` takes layers that were made elsewhere.
"""

import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

NAME: Final = "io.containerd.image.name"
"""The annotation from which containerd takes the whole name; the standard one is for the tag."""

_LAYOUT: Final = "application/vnd.oci.image"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A tar archive, and what is stored of it, which may be compressed with gzip."""

    archive: bytes
    gzip: bytes = b""

    @property
    def stored(self) -> bytes:
        """The bytes of the blob."""
        return self.gzip or self.archive

    @property
    def media_type(self) -> str:
        """What the blob is."""
        return f"{_LAYOUT}.layer.v1.tar{'+gzip' if self.gzip else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """An image: its archive, and the digest by which a registry will know it."""

    archive: bytes
    digest: str


def archive(name: str, programs: Mapping[str, bytes], *, entrypoint: Sequence[str]) -> bytes:
    """Return the archive of an image ``name`` that holds ``programs`` by their paths."""
    layer = _tar({path.lstrip("/"): content for path, content in programs.items()}, mode=0o755)
    config = {
        "architecture": _ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "config": {"Entrypoint": list(entrypoint), "User": "65534:65534"},
    }
    return pack([Layer(archive=layer)], config, annotations={NAME: name}).archive


def pack(
    layers: Sequence[Layer], config: Mapping[str, Any], *, annotations: Mapping[str, str]
) -> Packed:
    """Return the image of ``layers``, the lowest first; ``annotations`` name it in the archive."""
    written = _json(
        {
            **config,
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer.archive) for layer in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_LAYOUT}.manifest.v1+json",
            "config": _descriptor(f"{_LAYOUT}.config.v1+json", written),
            "layers": [_descriptor(layer.media_type, layer.stored) for layer in layers],
        }
    )
    described = _descriptor(f"{_LAYOUT}.manifest.v1+json", manifest)
    entry = {**described, "annotations": dict(annotations)}
    blobs = (*(layer.stored for layer in layers), written, manifest)
    files = {f"blobs/sha256/{sha256(blob).hexdigest()}": blob for blob in blobs}
    files["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    files["index.json"] = _json({"schemaVersion": 2, "manifests": [entry]})
    return Packed(archive=_tar(files, mode=0o644), digest=described["digest"])


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _tar(files: Mapping[str, bytes], *, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as opened:
        for path, content in files.items():
            # Owner root and the time 0 are the defaults.
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            entry.mode = mode
            opened.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
