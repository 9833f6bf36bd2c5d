"""What a bundle may not hold, whatever else vouches for it; sigstore-go refuses each of these."""

import copy
from collections.abc import Callable

import pytest

from tests.fakes import cosignsigner
from tests.fakes.cosignscene import attach, refusal, trusting, verify
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Json, Sigstore
from toolkit.verify.cosign.steps import Step

Change = Callable[[Json], object]


def version(number: str) -> str:
    return f"application/vnd.dev.sigstore.bundle+json;version={number}"


def entry(bundle: Json) -> Json:
    found: Json = bundle["verificationMaterial"]["tlogEntries"][0]
    return found


def chain(bundle: Json) -> None:
    material = bundle["verificationMaterial"]
    material["x509CertificateChain"] = {"certificates": [material.pop("certificate")]}


def both_signers(bundle: Json) -> None:
    bundle["verificationMaterial"]["publicKey"] = {"hint": "key"}


def both_certificates(bundle: Json) -> None:
    material = bundle["verificationMaterial"]
    material["x509CertificateChain"] = {"certificates": [material["certificate"]]}


def both_signatures(bundle: Json) -> None:
    bundle["messageSignature"] = {"signature": bundle["dsseEnvelope"]["signatures"][0]["sig"]}


def twice(bundle: Json) -> None:
    bundle["verificationMaterial"]["tlogEntries"] *= 2


def stamped_twice(bundle: Json) -> None:
    bundle["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"] *= 2


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        ("0.3", lambda b: entry(b).pop("inclusionProof"), "has no inclusion proof"),
        ("0.2", lambda b: entry(b).pop("inclusionProof"), "has no inclusion proof"),
        ("0.1", lambda b: entry(b).pop("inclusionPromise"), "has no inclusion promise"),
        ("0.3", lambda b: entry(b)["inclusionProof"].pop("checkpoint"), "has no checkpoint"),
        ("0.1", lambda b: entry(b)["inclusionProof"].pop("checkpoint"), "has no checkpoint"),
        ("0.3", chain, "a chain of certificates instead of a single one"),
        ("0.3", both_signers, "names its signer in more than one way"),
        ("0.1", both_certificates, "names its signer in more than one way"),
        ("0.3", both_signatures, "both a signature of a message and an envelope"),
        ("0.3", lambda b: entry(b).pop("kindVersion"), "does not say its kind and version"),
        ("0.3", twice, "holds a log entry twice"),
        ("0.3", stamped_twice, "holds a timestamp twice"),
    ],
)
async def test_bundle_that_its_version_does_not_allow_is_refused(
    store: SignatureStore, sigstore: Sigstore, number: str, change: Change, words: str
) -> None:
    good = cosignsigner.keyless(sigstore, store.digest, stamped_by=sigstore)
    good["mediaType"] = version(number)
    bad, other = copy.deepcopy(good), SignatureStore(store.artifact)
    change(bad)
    attach(store, bad)
    attach(other, good)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.READABLE
    assert words in str(refused)
    assert await verify(other, trusting(sigstore))


async def test_log_entry_of_another_kind_than_it_says_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest)
    entry(bundle)["kindVersion"]["version"] = "0.0.2"
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ENTRY
    assert "of another kind than it says" in str(refused)
