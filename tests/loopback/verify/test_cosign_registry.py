"""Cosign signatures in a registry that misbehaves: an error or a refusal, in bounded time."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.fakes import cosignsigner
from tests.fakes.cosignscene import trusting
from tests.fakes.cosignsigner import BUNDLE
from tests.fakes.registry import FakeRegistry
from tests.fakes.sigstore import Sigstore, canonical
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http
from toolkit.remote.oci.errors import RegistryError
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.cosign.steps import Step
from toolkit.verify.signature import VerificationError
from toolkit.verify.subject import Subject


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    """Run a registry with an artifact."""
    async with FakeRegistry() as running:
        running.push("acme/app", "v1", [b"content"])
        yield running


@pytest.fixture
async def subject(registry: FakeRegistry, http: Http) -> Subject:
    """Return the artifact as it is asked for over HTTP."""
    store = Registry(http, Endpoint(plain_http=True), timeout=20.0)
    repository = Repository.parse(registry.url("acme/app"))
    descriptor = await store.resolve(repository, "v1")
    return Subject(store=store, repository=repository, descriptor=descriptor)


def sign(registry: FakeRegistry, subject: Subject, sigstore: Sigstore) -> None:
    bundle = canonical(cosignsigner.keyless(sigstore, subject.digest))
    registry.push(
        "acme/app",
        "",
        [registry.put_blob(bundle, BUNDLE)],
        artifact_type=BUNDLE,
        subject={"mediaType": "x", "digest": subject.digest, "size": 1},
    )


async def verify(subject: Subject, sigstore: Sigstore) -> None:
    await cosign.verify(subject, trusting(sigstore), public_root=PublicRoot(offline=True))


async def test_signed_artifact_is_verified(registry: FakeRegistry, subject: Subject) -> None:
    sigstore = Sigstore()
    sign(registry, subject, sigstore)

    await verify(subject, sigstore)


async def test_unsigned_artifact_is_refused(subject: Subject) -> None:
    with pytest.raises(VerificationError) as caught:
        await verify(subject, Sigstore())

    assert caught.value.step == Step.FOUND


@pytest.mark.parametrize("kind", ["referrers", "manifests", "blobs"])
async def test_endless_answer_ends_as_a_refusal(
    registry: FakeRegistry, subject: Subject, kind: str
) -> None:
    sigstore = Sigstore()
    sign(registry, subject, sigstore)
    registry.faults.endless = kind

    with pytest.raises(VerificationError) as caught:
        await verify(subject, sigstore)

    assert caught.value.step == Step.READABLE


@pytest.mark.parametrize("status", [401, 403, 500])
@pytest.mark.parametrize("kind", ["referrers", "manifests", "blobs"])
async def test_failing_answer_is_an_error(
    registry: FakeRegistry, subject: Subject, kind: str, status: int
) -> None:
    sigstore = Sigstore()
    sign(registry, subject, sigstore)
    registry.faults.statuses = [(kind, status, {})] * 20

    with pytest.raises(RegistryError):
        await verify(subject, sigstore)


async def test_truncated_bundle_is_an_error(registry: FakeRegistry, subject: Subject) -> None:
    sigstore = Sigstore()
    sign(registry, subject, sigstore)
    registry.faults.truncate = True

    with pytest.raises(RegistryError):
        await verify(subject, sigstore)


async def test_other_bundle_than_its_digest_says_is_an_error(
    registry: FakeRegistry, subject: Subject
) -> None:
    sigstore = Sigstore()
    sign(registry, subject, sigstore)
    for digest, blob in registry.blobs.items():
        if b"verificationMaterial" in blob:
            registry.faults.content[digest] = blob[:-1] + b"]"

    with pytest.raises(RegistryError):
        await verify(subject, sigstore)


async def test_huge_manifest_behind_the_tag_is_refused(
    registry: FakeRegistry, subject: Subject
) -> None:
    manifest = {"schemaVersion": 2, "layers": [], "annotations": {"x": "x" * (10 << 20)}}
    tag = subject.digest.replace(":", "-") + ".sig"
    registry.put_manifest("acme/app", json.dumps(manifest).encode(), tag=tag)

    with pytest.raises(VerificationError) as caught:
        await verify(subject, Sigstore())

    assert caught.value.step == Step.READABLE
