"""Each kind of signature that a policy can demand of an image."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes import cosignsigner, imagescene, notary
from tests.fakes.admission import NAMESPACE
from tests.fakes.cosignsigner import BUNDLE, ISSUER, SUBJECT
from tests.fakes.imagescene import ImageScene
from tests.fakes.registry import OCI_MANIFEST, FakeRegistry
from tests.fakes.revocation import Authority, Revocations
from tests.fakes.sigstore import Sigstore, canonical
from toolkit.native.pool import WorkerPool
from toolkit.remote.oci.oci import Descriptor

ROOT = "root"
WHOLE = {
    "issuer": "https://token[.]actions[.]example[.]com",
    "subject": "https://github.com/acme/.*",
}


@pytest.fixture(scope="module")
def sigstore() -> Sigstore:
    return Sigstore()


def keyless(scene: ImageScene, sigstore: Sigstore, name: str = "acme/app") -> None:
    """Push an image that an identity signed."""
    digest = scene.push(name)
    bundle = canonical(cosignsigner.keyless(sigstore, digest))
    subject = {"mediaType": OCI_MANIFEST, "digest": digest, "size": 1}
    layers = [scene.registry.put_blob(bundle, BUNDLE)]
    scene.registry.push(name, "", layers, artifact_type=BUNDLE, subject=subject)


def demand(scene: ImageScene, sigstore: Sigstore, **identity: str) -> None:
    """Demand a signature by an identity that a Sigstore of one's own vouches for."""
    scene.secret(ROOT, {"trusted_root.json": sigstore.trusted_root()}, NAMESPACE)
    cosign = {"identities": [identity], "trustedRootSecretRef": {"name": ROOT}}
    scene.require("acme/*", verifiers=[{"name": "ci", "cosign": cosign}])


async def test_image_that_an_identity_signed_is_admitted(
    scene: ImageScene, sigstore: Sigstore
) -> None:
    keyless(scene, sigstore)
    demand(scene, sigstore, **WHOLE)

    await scene.admit(scene.pod("acme/app:v1"))


@pytest.mark.parametrize(
    "identity",
    [
        {"issuer": ISSUER, "subject": "https://github.com/acme/"},
        {"issuer": ISSUER, "subject": "github.com/acme/.*"},
        {"issuer": "https://token.actions", "subject": ".*"},
        {"issuer": ISSUER, "subject": "https://github.com/other/.*"},
        {"issuer": ISSUER, "subject": f"other|{SUBJECT[:-1]}"},
    ],
)
async def test_identity_is_matched_as_a_whole(
    scene: ImageScene, sigstore: Sigstore, identity: dict[str, str]
) -> None:
    keyless(scene, sigstore)
    demand(scene, sigstore, **identity)

    assert "verifier 'ci': step 11" in str(await scene.refusal(scene.pod("acme/app:v1")))


async def test_identity_of_another_sigstore_is_refused(
    scene: ImageScene, sigstore: Sigstore
) -> None:
    keyless(scene, Sigstore())
    demand(scene, sigstore, **WHOLE)

    assert "verifier 'ci': step" in str(await scene.refusal(scene.pod("acme/app:v1")))


async def test_statement_of_the_signer_that_is_no_signature_is_refused(scene: ImageScene) -> None:
    digest = scene.push("acme/app")
    sbom = cosignsigner.keyed(imagescene.KEY, digest, "https://spdx.dev/Document")
    layers = [scene.registry.put_blob(canonical(sbom), BUNDLE)]
    subject = {"mediaType": OCI_MANIFEST, "digest": digest, "size": 1}
    scene.registry.push("acme/app", "", layers, artifact_type=BUNDLE, subject=subject)
    scene.require("acme/*")

    assert "step 3" in str(await scene.refusal(scene.pod("acme/app:v1")))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
async def notation(authority: Authority, pool: WorkerPool) -> AsyncIterator[ImageScene]:
    """Run the scene with an engine, and a policy that demands a signature by Notation."""
    async with (
        FakeRegistry() as registry,
        imagescene.running(registry, pool=pool, revocations=Revocations(authority)) as running,
    ):
        yield running


def trusting(scene: ImageScene, authority: Authority, level: str = "strict") -> None:
    document = notary.document(
        level, scopes=("*",) if level != "skip" else (scene.name("acme/app"),)
    )
    data = {"trustpolicy.json": document, **notary.trust(authority)}
    scene.secret("trust", data, NAMESPACE)
    verifier = {"name": "notary", "notation": {"secretRef": {"name": "trust"}}}
    scene.require("acme/*", verifiers=[verifier])


def notarized(scene: ImageScene, by: Any) -> None:
    """Push an image that Notation signed."""
    digest = scene.push("acme/app")
    _, raw = scene.registry.manifests["acme/app", digest]
    target = Descriptor(media_type=OCI_MANIFEST, digest=digest, size=len(raw))
    envelope = notary.envelope(by, target)
    scene.registry.push(
        "acme/app",
        "",
        [scene.registry.put_blob(envelope, notary.JWS)],
        config_type=notary.SIGNATURE,
        subject=notary.as_json(target),
        artifact_type=notary.SIGNATURE,
    )


async def test_image_that_notation_signed_is_admitted(
    notation: ImageScene, authority: Authority
) -> None:
    notarized(notation, authority.certify())
    trusting(notation, authority)

    await notation.admit(notation.pod("acme/app:v1"))


async def test_image_that_a_stranger_signed_with_notation_is_refused(
    notation: ImageScene, authority: Authority
) -> None:
    notarized(notation, Authority("Root", server="http://stranger.example.com").certify())
    trusting(notation, authority)

    assert "verifier 'notary': step 5" in str(await notation.refusal(notation.pod("acme/app:v1")))


async def test_trust_policy_that_lets_everything_pass_admits_nothing(
    notation: ImageScene, authority: Authority
) -> None:
    notation.push("acme/app")
    trusting(notation, authority, "skip")

    refusal = str(await notation.refusal(notation.pod("acme/app:v1")))

    assert "the trust policy tolerates failures" in refusal
