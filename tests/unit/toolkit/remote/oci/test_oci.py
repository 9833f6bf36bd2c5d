"""Repositories and manifests as strangers write them."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.remote.oci import oci
from toolkit.remote.oci.errors import RegistryError, RepositoryURLError
from toolkit.remote.oci.oci import Repository

DIGEST = f"sha256:{'a' * 64}"
LAYER = {"mediaType": "application/x", "digest": DIGEST, "size": 3}


@pytest.mark.parametrize(
    ("url", "registry", "name"),
    [
        ("oci://ghcr.io/org/app", "ghcr.io", "org/app"),
        ("oci://GHCR.io/org/app", "ghcr.io", "org/app"),
        ("oci://localhost:5000/a", "localhost:5000", "a"),
        ("oci://10.0.0.1/a/b/c_d/e__f/g--h/i.j", "10.0.0.1", "a/b/c_d/e__f/g--h/i.j"),
        ("oci://[::1]:5000/app", "[::1]:5000", "app"),
        ("oci://docker.io/nginx", "docker.io", "library/nginx"),
        ("oci://docker.io/org/nginx", "docker.io", "org/nginx"),
        ("oci://ghcr.io/org/app/", "ghcr.io", "org/app"),
    ],
)
def test_repository_is_read(url: str, registry: str, name: str) -> None:
    assert Repository.parse(url) == Repository(registry=registry, name=name)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ghcr.io/org/app",
        "https://ghcr.io/org/app",
        "oci://ghcr.io",
        "oci://ghcr.io/",
        "oci://ghcr.io/Org/app",
        "oci://ghcr.io/org/app:v1",
        f"oci://ghcr.io/org/app@{DIGEST}",
        "oci://ada:hunter2@ghcr.io/org/app",
        "oci://ghcr.io/../app",
        "oci://ghcr.io/org//app",
        "oci://ghcr.io/org/app?x=1",
        "oci://ghcr.io:0/app",
        "oci://ghcr.io:99999/app",
        "oci://gh cr.io/app",
        "oci://ghcr.io/app\r\nX: 1",
        "oci://-ghcr.io/app",
        f"oci://ghcr.io/{'a' * 600}",
    ],
)
def test_address_that_is_no_repository_is_refused(url: str) -> None:
    with pytest.raises(RepositoryURLError) as caught:
        Repository.parse(url)

    assert caught.value.reason == "URLInvalid"
    assert "\n" not in str(caught.value)


def test_docker_hub_is_asked_where_its_api_is() -> None:
    assert Repository.parse("oci://docker.io/nginx").host == "registry-1.docker.io"
    assert Repository.parse("oci://ghcr.io/nginx").host == "ghcr.io"


def manifest(**fields: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, **fields}).encode()


def test_manifest_is_read() -> None:
    raw = manifest(
        mediaType=oci.OCI_MANIFEST,
        artifactType="application/artifact",
        config={**LAYER, "mediaType": "application/config"},
        layers=[{**LAYER, "annotations": {"title": "app"}}],
        annotations={"a": "b"},
        subject=LAYER,
    )

    found = oci.parse_manifest(raw)

    assert found.descriptor.digest == f"sha256:{hashlib.sha256(raw).hexdigest()}"
    assert found.descriptor.size == len(raw)
    assert found.artifact_type == "application/artifact"
    assert found.config is not None
    assert found.config.media_type == "application/config"
    assert found.layers[0].annotations == {"title": "app"}
    assert found.annotations == {"a": "b"}
    assert found.subject is not None
    assert found.subject.digest == DIGEST
    assert not found.is_index


@pytest.mark.parametrize("told", ["", "text/plain; charset=utf-8", oci.OCI_INDEX])
def test_index_without_a_type_is_known_by_its_form(told: str) -> None:
    found = oci.parse_manifest(manifest(manifests=[LAYER]), media_type=told)

    assert found.is_index
    assert found.manifests[0].platform is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"schemaVersion": 2, "layers": ' + b"[" * 100_000,
        manifest(schemaVersion=1, layers=[]),
        manifest(manifests=[LAYER], layers=[LAYER]),
        manifest(manifests=[LAYER], config=LAYER),
        manifest(manifests=[], layers=[]),
        manifest(mediaType=oci.OCI_INDEX, layers=[LAYER]),
        manifest(mediaType=oci.OCI_MANIFEST, manifests=[LAYER]),
        manifest(layers=[{**LAYER, "digest": "sha256:abc"}]),
        manifest(layers=[{**LAYER, "digest": "sha256:../../etc/passwd"}]),
        manifest(layers=[{**LAYER, "digest": f"md5:{'a' * 32}"}]),
        manifest(layers=[{**LAYER, "size": -1}]),
        manifest(layers=[{**LAYER, "size": "3"}]),
        manifest(layers=[LAYER] * (oci.MAX_PARTS + 1)),
        manifest(annotations={"a": "x" * oci.MAX_MANIFEST}),
        manifest(annotations={"a": 1}),
    ],
    ids=range(20),
)
def test_document_that_is_no_manifest_is_refused(raw: bytes) -> None:
    with pytest.raises(RegistryError):
        oci.parse_manifest(raw)


@given(raw=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        oci.parse_manifest(raw)
    except RegistryError:
        return
    assert json.loads(raw)["schemaVersion"] == 2


@given(url=st.text(max_size=80).map(lambda rest: f"oci://{rest}"))
def test_any_address_is_read_or_refused(url: str) -> None:
    try:
        repository = Repository.parse(url)
    except RepositoryURLError:
        return
    assert f"{repository}".isascii()
