"""OCIRepository against a registry: what is chosen, verified, pulled and told."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from controllers.source.source import File, Tree
from crds.meta import Artifact
from tests.fakes.registry import FakeRegistry, tarball
from tests.loopback.oci.bench import LAYER, LOGIN, NAME, Bench, make, obj
from toolkit.errors import StalledError, TransientError
from toolkit.remote.http.http import Http


@pytest.mark.parametrize(
    ("ref", "chosen"),
    [
        (None, "latest"),
        ({}, "latest"),
        ({"tag": "v1"}, "v1"),
        ({"semver": "1.x"}, "1.2.0"),
        ({"semver": ">=1.0.0-0", "semverFilter": ".*-rc.*"}, "2.0.0-rc.1"),
        ({"semver": "1.x", "tag": "v1"}, "1.2.0"),
    ],
)
async def test_reference_is_resolved(
    server: FakeRegistry, bench: Bench, ref: dict[str, str] | None, chosen: str
) -> None:
    digests = {
        tag: server.push(NAME, tag, [tag.encode()])["digest"]
        for tag in ("latest", "v1", "1.0.0", "1.2.0", "2.0.0-rc.1")
    }

    upstream = await bench.resolve(obj(server, **({"ref": ref} if ref is not None else {})))

    assert upstream.revision == f"{chosen}@{digests[chosen]}"


@pytest.mark.parametrize(
    ("media_type", "chosen"),
    [
        ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", "1.1.0_up2"),
        ("application/vnd.oci.image.layer.v1.tar+gzip", "1.0.0"),
    ],
)
async def test_tags_of_charts_are_versions(
    server: FakeRegistry, bench: Bench, media_type: str, chosen: str
) -> None:
    digests = {
        tag: server.push(NAME, tag, [tag.encode()])["digest"] for tag in ("1.0.0", "1.1.0_up2")
    }
    selector = {"mediaType": media_type, "operation": "copy"}

    upstream = await bench.resolve(obj(server, ref={"semver": "1.x"}, layerSelector=selector))

    assert upstream.revision == f"{chosen}@{digests[chosen]}"


async def test_digest_wins_and_is_the_revision(server: FakeRegistry, bench: Bench) -> None:
    digest = server.push(NAME, "v1", [b"1"])["digest"]
    server.push(NAME, "2.0.0", [b"2"])

    upstream = await bench.resolve(
        obj(server, ref={"digest": digest, "semver": "2.x", "tag": "2.0.0"})
    )

    assert upstream.revision == digest


async def test_unchanged_reference_costs_one_head(server: FakeRegistry, bench: Bench) -> None:
    server.push(NAME, "v1", [LAYER])
    app = obj(server, ref={"tag": "v1"})
    await bench.fetch(app)
    server.counts.clear()

    await bench.resolve(app)

    assert server.counts == {"HEAD manifests": 1}


async def test_unchanged_reference_behind_a_token_service_costs_one_head(
    http: Http, tmp_path: Path
) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        bench = make(http, tmp_path)
        bench.cluster.held["pull"] = {".dockerconfigjson": server.dockerconfig(*LOGIN)}
        server.push(NAME, "v1", [LAYER])
        app = obj(server, ref={"tag": "v1"}, secretRef={"name": "pull"})
        await bench.fetch(app)
        server.counts.clear()

        await bench.resolve(app)

    assert server.counts == {"HEAD manifests": 1}


async def test_files_of_the_first_layer_are_brought(server: FakeRegistry, bench: Bench) -> None:
    digest = server.push(NAME, "v1", [LAYER, tarball({"other": "layer"})])["digest"]

    fetched = await bench.fetch(obj(server, ref={"tag": "v1"}))

    assert bench.files() == {"app.yaml": "kind: ConfigMap\n", "docs/read.me": "hello"}
    assert isinstance(fetched.content, Tree)
    assert fetched.filename == f"{digest}.tar.gz"
    assert fetched.summary == (
        f"stored artifact with revision 'v1@{digest}' from '{server.url(NAME)}'"
    )
    assert sorted(path.name for path in bench.into.parent.iterdir()) == ["into"]


async def test_layer_of_a_type_is_brought(server: FakeRegistry, bench: Bench) -> None:
    wanted = server.put_blob(tarball({"wanted": "yes"}), "application/wanted")
    server.push(NAME, "latest", [LAYER, wanted])

    await bench.fetch(obj(server, layerSelector={"mediaType": "application/wanted"}))

    assert bench.files() == {"wanted": "yes"}


async def test_copied_layer_is_the_artifact_as_it_is(server: FakeRegistry, bench: Bench) -> None:
    hostile = hostile_tarball("../../escaped")
    server.push(NAME, "latest", [hostile])

    fetched = await bench.fetch(obj(server, layerSelector={"operation": "copy"}))

    assert isinstance(fetched.content, File)
    assert fetched.content.path.read_bytes() == hostile
    assert not (bench.into.parent.parent / "escaped").exists()


def hostile_tarball(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    return buffer.getvalue()


def bomb(size: int) -> bytes:
    """Return the beginning of a tarball whose one file is said to be so large."""
    entry = tarfile.TarInfo("bomb")
    entry.size = size
    return gzip.compress(entry.tobuf() + bytes(1 << 20))


@pytest.mark.parametrize(
    "layer",
    [
        hostile_tarball("../../escaped"),
        hostile_tarball("/escaped"),
        bomb(600 << 20),
        b"not a tarball",
        LAYER[:60],
        b"",
    ],
)
async def test_layer_that_cannot_be_unpacked_is_refused(
    server: FakeRegistry, bench: Bench, layer: bytes
) -> None:
    server.push(NAME, "latest", [layer])

    with pytest.raises(TransientError, match="cannot unpack the layer sha256:") as caught:
        await bench.fetch(obj(server))

    assert caught.value.reason == "OCIArtifactLayerOperationFailed"
    assert not (bench.into.parent.parent / "escaped").exists()


@pytest.mark.parametrize("selector", [{}, {"mediaType": "application/missing"}])
async def test_missing_layer_is_named(
    server: FakeRegistry, bench: Bench, selector: dict[str, str]
) -> None:
    layers = [LAYER] if selector else []
    server.push(NAME, "latest", layers)

    with pytest.raises(TransientError, match="has no layer") as caught:
        await bench.fetch(obj(server, layerSelector=selector))

    assert caught.value.reason == "OCIArtifactLayerOperationFailed"


async def test_annotations_become_metadata_but_never_a_proof(
    server: FakeRegistry, bench: Bench
) -> None:
    told = {
        "org.opencontainers.image.source": "https://git.example.com/app",
        "org.opencontainers.image.revision": "main@sha1:abc",
    }
    forged = {
        "source.penstock.dev/verified": "signed by root",
        "source.penstock.dev/trust": "x",
        "verify.penstock.dev/identity": "root",
        "penstock.dev/verified": "x",
        "Verify.Penstock.dev/identity": "root",
    }
    server.push(NAME, "latest", [LAYER], annotations={**told, **forged, "long": "x" * 5000})

    fetched = await bench.fetch(obj(server))

    assert fetched.metadata == told
    assert fetched.summary.endswith(
        ", origin source 'https://git.example.com/app', origin revision 'main@sha1:abc'"
    )


async def test_annotations_are_bounded_together(server: FakeRegistry, bench: Bench) -> None:
    told = {"org.opencontainers.image.revision": "1\nand a line"}
    long = {f"a/{number:02}": "x" * 4000 for number in range(60)}
    server.push(NAME, "latest", [LAYER], annotations={**told, **long})

    fetched = await bench.fetch(obj(server))

    assert told.items() <= fetched.metadata.items()
    assert sum(len(key) + len(value) for key, value in fetched.metadata.items()) <= 16 << 10


async def test_annotations_stay_within_the_line_of_the_event(
    server: FakeRegistry, bench: Bench
) -> None:
    told = {
        "org.opencontainers.image.source": "a\nb",
        "org.opencontainers.image.revision": "c" * 4000,
    }
    server.push(NAME, "latest", [LAYER], annotations=told)

    fetched = await bench.fetch(obj(server))

    assert "origin source 'a?b', origin revision 'ccc" in fetched.summary
    assert len(fetched.summary) < 600


async def test_first_fitting_entry_of_an_index_is_brought(
    server: FakeRegistry, bench: Bench
) -> None:
    def entry(content: str, **platform: str) -> dict[str, Any]:
        pushed = server.push(
            NAME, "", [tarball({"which": content})], annotations={"which": content}
        )
        return {**pushed, "platform": platform} if platform else pushed

    index = server.index(
        NAME,
        "latest",
        [
            entry("attestation", os="unknown", architecture="unknown"),
            entry("arm", os="linux", architecture="arm64"),
            entry("amd", os="linux", architecture="amd64"),
            entry("none"),
        ],
    )

    fetched = await bench.fetch(obj(server))

    assert bench.files() == {"which": "amd"}
    assert fetched.metadata == {"which": "amd"}
    assert fetched.filename == f"{index['digest']}.tar.gz"


@pytest.mark.parametrize("nested", [True, False])
async def test_index_without_a_fitting_manifest_is_refused(
    server: FakeRegistry, bench: Bench, *, nested: bool
) -> None:
    pushed = server.push(NAME, "", [LAYER])
    inner = server.index(NAME, "", [pushed])
    arm = {**pushed, "platform": {"os": "linux", "architecture": "arm64"}}
    server.index(NAME, "latest", [inner if nested else arm])

    with pytest.raises(TransientError, match="index") as caught:
        await bench.fetch(obj(server))

    assert caught.value.reason == "OCIArtifactLayerOperationFailed"


async def test_tag_that_moves_in_between_changes_nothing(
    server: FakeRegistry, bench: Bench
) -> None:
    server.push(NAME, "latest", [tarball({"which": "old"})])
    app = obj(server)
    upstream = await bench.resolve(app)
    server.push(NAME, "latest", [tarball({"which": "new"})])

    await bench.source.fetch(app, upstream, bench.into)

    assert bench.files() == {"which": "old"}


async def test_registry_that_swaps_the_manifest_in_between_is_refused(
    server: FakeRegistry, bench: Bench
) -> None:
    server.push(NAME, "latest", [tarball({"which": "old"})])
    app = obj(server)
    upstream = await bench.resolve(app)
    other = server.push(NAME, "latest", [tarball({"which": "new"})])
    raw = server.manifests[NAME, other["digest"]][1]
    server.faults.content[upstream.descriptor.digest] = raw

    with pytest.raises(TransientError, match="it has the digest") as caught:
        await bench.source.fetch(app, upstream, bench.into)

    assert caught.value.reason == "OCIArtifactPullFailed"
    assert bench.files() == {}


async def test_pull_as_a_whole_ends_at_the_timeout(server: FakeRegistry, bench: Bench) -> None:
    server.push(NAME, "latest", [LAYER])
    app = obj(server, timeout="300ms")
    upstream = await bench.resolve(obj(server))
    server.faults.seconds_per_byte = 0.01

    with pytest.raises(TransientError) as caught:
        await bench.source.fetch(app, upstream, bench.into)

    assert caught.value.reason == "OCIArtifactPullFailed"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"url": "oci://localhost/Team/App"}, "is not a repository"),
        ({"url": "oci://ada:hunter2@localhost/app"}, "is not a repository"),
        ({"ref": {"digest": "sha256:abc"}}, "spec.ref.digest"),
        ({"ref": {"tag": "../x"}}, "spec.ref.tag"),
        ({"ref": {"semver": "not a range"}}, "spec.ref.semver"),
        ({"ref": {"semver": "1.x", "semverFilter": "("}}, "spec.ref.semverFilter"),
        ({"ref": {"semver": "1.x", "semverFilter": "(?=x)"}}, "spec.ref.semverFilter"),
    ],
)
async def test_spec_that_can_never_work_stalls(
    server: FakeRegistry, bench: Bench, spec: dict[str, Any], said: str
) -> None:
    with pytest.raises(StalledError, match=said):
        await bench.resolve(obj(server, **spec))

    assert server.seen == []


async def test_range_without_a_match_is_told(server: FakeRegistry, bench: Bench) -> None:
    server.push(NAME, "1.0.0", [LAYER])

    with pytest.raises(TransientError, match="no tag of 'localhost") as caught:
        await bench.resolve(obj(server, ref={"semver": ">=2"}))

    assert caught.value.reason == "ReadOperationFailed"


async def test_inputs_that_shape_the_artifact_are_observed(
    server: FakeRegistry, bench: Bench
) -> None:
    server.push(NAME, "latest", [LAYER])

    bare = await bench.resolve(obj(server))
    full = await bench.resolve(
        obj(server, ignore="docs/", layerSelector={"mediaType": "a/b", "operation": "copy"})
    )

    assert bare.observed == {"observedIgnore": None, "observedLayerSelector": None}
    assert full.observed == {
        "observedIgnore": "docs/",
        "observedLayerSelector": {"mediaType": "a/b", "operation": "copy"},
    }


async def test_ready_message_names_the_digest(server: FakeRegistry, bench: Bench) -> None:
    digest = f"sha256:{hashlib.sha256(b'x').hexdigest()}"
    artifact = Artifact(
        digest=digest, last_update_time="", path="p", revision=f"v1@{digest}", url="u"
    )

    assert bench.source.message(obj(server), artifact) == (
        f"stored artifact for digest 'v1@{digest}'"
    )
