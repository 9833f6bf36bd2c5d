"""OCIRepositories: artifacts of registries, from the API to the files that a consumer gets."""

import asyncio
import base64
import json

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.e2e.conftest import CONFIG_MAP, KUSTOMIZATION, Space, condition, config_map
from tests.e2e.ocirepositories import NAME, OCI_REPOSITORY, source
from tests.e2e.sources import content, replace, secret
from tests.fakes.registry import FakeRegistry, tarball
from toolkit.objects import Json
from toolkit.policy.origins import RECORD

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOGIN = ("ada", "s3cret-horse")
FILES = {"app.yaml": config_map("app", water="flows"), "docs/notes.txt": "notes"}


async def edited(space: Space, change: Json, name: str = "app") -> Json:
    """Change the spec, and return the object once it is Ready with that."""
    api = space.world.api
    await api.patch(OCI_REPOSITORY, name, space.namespace, {"spec": change}, strategy="merge")
    return await space.ready(OCI_REPOSITORY, name)


def ready_of(obj: Json) -> Json:
    return condition(obj, "Ready")


async def test_artifact_reaches_the_cluster(space: Space) -> None:
    async with FakeRegistry() as server:
        digest = server.push(NAME, "latest", [tarball(FILES)])["digest"]
        await space.world.apply(
            source(space, server),
            space.kustomization(sourceRef={"kind": "OCIRepository", "name": "app"}),
        )

        obj = await space.ready(OCI_REPOSITORY)
        await space.ready(KUSTOMIZATION)

    revision = f"latest@{digest}"
    assert ready_of(obj)["reason"] == "Succeeded"
    assert ready_of(obj)["message"] == f"stored artifact for digest '{revision}'"
    assert condition(obj, "ArtifactInStorage")["status"] == "True"
    artifact = obj["status"]["artifact"]
    assert artifact["revision"] == revision
    assert artifact["path"] == f"ocirepository/{space.namespace}/app/{digest}.tar.gz"
    assert obj["status"]["url"] == artifact["url"].replace(digest, "latest")
    assert await content(obj) == FILES
    applied = await space.get(CONFIG_MAP, "app")
    assert applied["data"] == {"water": "flows"}


async def test_unchanged_artifact_costs_one_head(space: Space) -> None:
    async with FakeRegistry() as server:
        server.push(NAME, "latest", [tarball(FILES)])
        await space.world.apply(source(space, server))
        before = await space.ready(OCI_REPOSITORY)
        server.counts.clear()

        await space.request(OCI_REPOSITORY)

    after = await space.ready(OCI_REPOSITORY)
    assert server.counts == {"HEAD manifests": 1}
    assert after["status"]["artifact"] == before["status"]["artifact"]


async def test_moved_tag_is_followed(space: Space) -> None:
    async with FakeRegistry() as server:
        server.push(NAME, "latest", [tarball({"a": "1"})])
        await space.world.apply(source(space, server))
        await space.ready(OCI_REPOSITORY)
        digest = server.push(NAME, "latest", [tarball({"a": "2"})])["digest"]

        await space.request(OCI_REPOSITORY)
        obj = await space.ready(OCI_REPOSITORY, revision=digest)

    assert await content(obj) == {"a": "2"}


async def test_range_selector_and_ignore_are_followed(space: Space) -> None:
    async with FakeRegistry() as server:
        first = server.put_blob(tarball({"a": "1", "b": "1"}), "application/first")
        second = server.put_blob(tarball({"a": "2", "b": "2"}), "application/second")
        server.push(NAME, "1.0.0", [first])
        server.push(NAME, "1.1.0", [first, second])
        server.push(NAME, "2.0.0-rc.1", [first])
        await space.world.apply(source(space, server, ref={"semver": "1.x"}))
        chosen = await space.ready(OCI_REPOSITORY)
        assert chosen["status"]["artifact"]["revision"].startswith("1.1.0@sha256:")
        assert await content(chosen) == {"a": "1", "b": "1"}

        second_layer = {"mediaType": "application/second"}
        layered = await edited(space, {"layerSelector": second_layer, "ignore": "b"})
        assert await content(layered) == {"a": "2"}
        assert layered["status"]["observedLayerSelector"] == second_layer
        assert layered["status"]["observedIgnore"] == "b"

        ref = {"semver": ">=0.0.0-0", "semverFilter": "-rc"}
        filtered = await edited(space, {"ref": ref, "layerSelector": None})
        assert filtered["status"]["artifact"]["revision"].startswith("2.0.0-rc.1@sha256:")
        assert "observedLayerSelector" not in filtered["status"]


async def test_annotations_are_the_artifact_s_metadata(space: Space) -> None:
    told = {"org.opencontainers.image.revision": "main@sha1:abc"}
    forged = {"source.penstock.dev/verified": "signed by root"}
    async with FakeRegistry() as server:
        server.push(NAME, "latest", [tarball(FILES)], annotations={**told, **forged})
        await space.world.apply(source(space, server))

        obj = await space.ready(OCI_REPOSITORY)

    metadata = obj["status"]["artifact"]["metadata"]
    assert {name: value for name, value in metadata.items() if name != RECORD} == told


async def test_login_is_found_in_secrets_and_accounts(space: Space) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.push(NAME, "latest", [tarball(FILES)])
        right = {".dockerconfigjson": server.dockerconfig(*LOGIN)}
        wrong = {".dockerconfigjson": server.dockerconfig("ada", "wr0ng-horse")}
        await space.world.apply(
            secret(space, "right", right),
            secret(space, "wrong", wrong),
            secret(space, "broken", {".dockerconfigjson": "s3cret-horse"}),
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "puller", "namespace": space.namespace},
                "imagePullSecrets": [{"name": "right"}],
            },
            source(space, server, "by-secret", secretRef={"name": "right"}),
            source(space, server, "by-account", serviceAccountName="puller"),
            source(space, server, "wrong", secretRef={"name": "wrong"}),
            source(space, server, "broken", secretRef={"name": "broken"}),
            source(space, server, "nobody"),
        )

        await space.ready(OCI_REPOSITORY, "by-secret")
        await space.ready(OCI_REPOSITORY, "by-account")
        refused = {
            name: await space.refused(OCI_REPOSITORY, name)
            for name in ("wrong", "broken", "nobody")
        }

    reasons = {name: ready_of(obj)["reason"] for name, obj in refused.items()}
    asked = dict.fromkeys(("wrong", "nobody"), "OCIArtifactPullFailed")
    assert reasons == {**asked, "broken": "AuthenticationFailed"}
    assert "refuses the credentials" in ready_of(refused["wrong"])["message"]
    assert "docker config.json" in ready_of(refused["broken"])["message"]
    assert "without credentials" in ready_of(refused["nobody"])["message"]
    assert "horse" not in str(refused) + space.world.stack.log("source").read_text()


async def test_failures_are_told_apart(space: Space) -> None:
    async with FakeRegistry() as server:
        server.push(NAME, "broken", [b"not a tarball"])
        lying = server.push(NAME, "lying", [tarball({"a": "1"})])
        blob = json.loads(server.manifests[NAME, lying["digest"]][1])["layers"][0]
        server.faults.content[blob["digest"]] = b"x" * blob["size"]
        tags = ("missing", "broken", "lying")
        await space.world.apply(*(source(space, server, tag, ref={"tag": tag}) for tag in tags))

        found = {tag: await space.refused(OCI_REPOSITORY, tag) for tag in tags}

    assert {tag: ready_of(obj)["reason"] for tag, obj in found.items()} == {
        "missing": "OCIArtifactPullFailed",
        "broken": "OCIArtifactLayerOperationFailed",
        "lying": "OCIArtifactPullFailed",
    }
    for obj in found.values():
        assert condition(obj, "FetchFailed")["status"] == "True"
        assert not condition(obj, "Stalled")
        assert "artifact" not in obj["status"]


async def test_last_artifact_stays_while_the_registry_fails(space: Space) -> None:
    async with FakeRegistry() as server:
        server.push(NAME, "latest", [tarball(FILES)])
        await space.world.apply(source(space, server))
        await space.ready(OCI_REPOSITORY)
    # It is gone now.
    await space.request(OCI_REPOSITORY)

    obj = await space.refused(OCI_REPOSITORY)

    assert ready_of(obj)["reason"] == "OCIArtifactPullFailed"
    assert await content(obj) == FILES


async def test_busy_registry_is_left_alone_for_as_long_as_it_says(space: Space) -> None:
    async with FakeRegistry() as server:
        server.push(NAME, "latest", [tarball(FILES)])
        server.faults.statuses.append(("manifests", 429, {"Retry-After": "3600"}))
        await space.world.apply(source(space, server))
        await space.refused(OCI_REPOSITORY, saying="asked for a pause")

        await space.request(OCI_REPOSITORY)

    assert server.counts == {"HEAD manifests": 1}


async def test_stored_artifact_that_vanishes_is_pulled_again(space: Space) -> None:
    async with FakeRegistry() as server:
        server.push(NAME, "latest", [tarball(FILES)])
        await space.world.apply(source(space, server))
        before = await space.ready(OCI_REPOSITORY)
        kept = space.world.stack.layout.storage / before["status"]["artifact"]["path"]
        await asyncio.to_thread(kept.unlink)

        await space.request(OCI_REPOSITORY)
        after = await space.ready(OCI_REPOSITORY)

    assert await content(after) == FILES


def key_pair() -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return key, public


def sign(server: FakeRegistry, key: ec.EllipticCurvePrivateKey, digest: str) -> None:
    """Sign as ``cosign sign --key`` does in its old form: a payload under the tag ``….sig``."""
    payload = json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": ""},
                "image": {"docker-manifest-digest": digest},
                "type": "cosign container image signature",
            },
            "optional": None,
        }
    ).encode()
    signature = base64.b64encode(key.sign(payload, ec.ECDSA(hashes.SHA256()))).decode()
    layer = server.put_blob(payload, "application/vnd.dev.cosign.simplesigning.v1+json")
    layer["annotations"] = {"dev.cosignproject.cosign/signature": signature}
    server.push(NAME, f"{digest.replace(':', '-')}.sig", [layer])


async def test_only_what_is_signed_is_offered(space: Space) -> None:
    key, public = key_pair()
    _, other = key_pair()
    verify = {"provider": "cosign", "secretRef": {"name": "keys"}}
    async with FakeRegistry() as server:
        digest = server.push(NAME, "latest", [tarball(FILES)])["digest"]
        await space.world.apply(
            secret(space, "keys", {"cosign.pub": public}), source(space, server, verify=verify)
        )
        unsigned = await space.refused(OCI_REPOSITORY)
        blobs = server.counts["GET blobs"]
        sign(server, key, digest)
        await space.request(OCI_REPOSITORY)
        signed = await space.ready(OCI_REPOSITORY)
        await replace(space, "keys", {"cosign.pub": other})
        await space.request(OCI_REPOSITORY)
        withdrawn = await space.refused(OCI_REPOSITORY)

    assert ready_of(unsigned)["reason"] == "VerificationError"
    assert condition(unsigned, "SourceVerified")["status"] == "False"
    assert "artifact" not in unsigned["status"]
    assert blobs == 0
    assert condition(signed, "SourceVerified")["status"] == "True"
    metadata = signed["status"]["artifact"]["metadata"]
    assert (
        metadata["source.penstock.dev/verified"] == condition(signed, "SourceVerified")["message"]
    )
    assert condition(withdrawn, "SourceVerified")["status"] == "False"
    assert "artifact" not in withdrawn["status"]
