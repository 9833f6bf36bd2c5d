"""Make an image of one layer without a container daemon: an OCI layout in a tar archive.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md. The same content gives the
same bytes. It is for images of a few static programs, such as the node's own pause image.
"""

import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

_LAYOUT: Final = "application/vnd.oci.image"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(name: str, programs: Mapping[str, bytes], *, entrypoint: Sequence[str]) -> bytes:
    """Return the archive of an image ``name`` that holds ``programs`` by their paths."""
    layer = _tar({path.lstrip("/"): content for path, content in programs.items()}, mode=0o755)
    config = _json(
        {
            "architecture": _ARCHITECTURES.get(os.uname().machine, os.uname().machine),
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "User": "65534:65534"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_LAYOUT}.manifest.v1+json",
            "config": _descriptor(f"{_LAYOUT}.config.v1+json", config),
            "layers": [_descriptor(f"{_LAYOUT}.layer.v1.tar", layer)],
        }
    )
    # containerd takes the whole name from its own annotation; the standard one is for the tag.
    named = {"io.containerd.image.name": name}
    entry = {**_descriptor(f"{_LAYOUT}.manifest.v1+json", manifest), "annotations": named}
    files = {f"blobs/sha256/{sha256(blob).hexdigest()}": blob for blob in (layer, config, manifest)}
    files["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    files["index.json"] = _json({"schemaVersion": 2, "manifests": [entry]})
    return _tar(files, mode=0o644)


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
