"""Images that are made without a container daemon."""

import io
import json
import tarfile
from hashlib import sha256

from controlplane.node import image


def test_archive_is_an_oci_layout_whose_digests_hold() -> None:
    content = image.archive("example.com/a:1", {"/a": b"program"}, entrypoint=["/a"])

    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        files = {name: _read(opened, name) for name in opened.getnames()}
    blobs = {name.rpartition("/")[2]: blob for name, blob in files.items() if "blobs" in name}
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blobs[entry["digest"].removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert {sha256(blob).hexdigest() for blob in blobs.values()} == set(blobs)
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"] == {"Entrypoint": ["/a"], "User": "65534:65534"}
    assert entry["annotations"] == {"io.containerd.image.name": "example.com/a:1"}


def test_same_programs_give_the_same_bytes() -> None:
    first, second = (
        image.archive("example.com/a:1", {"/a": b"program"}, entrypoint=["/a"]) for _ in range(2)
    )

    assert first == second


def test_compressed_layer_is_known_by_what_is_in_it() -> None:
    layer = image.Layer(archive=b"files", gzip=b"fewer")

    packed = image.pack([layer], {"architecture": "amd64"}, annotations={})

    with tarfile.open(fileobj=io.BytesIO(packed.archive)) as opened:
        manifest = json.loads(_read(opened, _blob(packed.digest)))
        (described,) = manifest["layers"]
        stored = _read(opened, _blob(described["digest"]))
        config = json.loads(_read(opened, _blob(manifest["config"]["digest"])))
    assert described["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
    assert stored == b"fewer"
    assert config["rootfs"]["diff_ids"] == [f"sha256:{sha256(b'files').hexdigest()}"]


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _read(opened: tarfile.TarFile, name: str) -> bytes:
    found = opened.extractfile(name)
    assert found is not None
    return found.read()
