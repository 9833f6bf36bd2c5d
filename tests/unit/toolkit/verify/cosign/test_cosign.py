"""Whose cosign signatures count, of which real cosign made some, and which are tried.

Every forgery differs from a signature that counts in the one thing that its test names.
"""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.fakes import cosignsigner, signaturestore
from tests.fakes.cosignscene import (
    ANOTHER,
    ANYONE,
    attach,
    pem,
    refusal,
    trusting,
    verify,
)
from tests.fakes.cosignsigner import BUNDLE, ISSUER, SIMPLE_SIGNING, SUBJECT
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Sigstore
from tests.tools.cosigncases import CASES, KEYS
from toolkit.remote.oci.errors import RegistryError
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.steps import Step

GOLDEN = Path(__file__).parents[4] / "testdata" / "cosign"


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.key and not case.attest]
)
async def test_signatures_by_the_real_cosign_with_a_key_count(name: str) -> None:
    store = signaturestore.from_json(GOLDEN / f"{name}.json")
    public = f"{CASES[name].key}.pub"

    proof = await verify(store, cosign.Policy.from_secret({public: (GOLDEN / public).read_bytes()}))

    assert proof.signer.identity == public
    assert proof.message.startswith(
        f"verified signature of {store.subject} by key {public} (SHA256:"
    )
    assert proof.facts["verify.penstock.dev/method"] == "cosign-key"


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if not case.key and not case.attest]
)
async def test_signatures_by_the_real_cosign_with_an_identity_count(name: str) -> None:
    store = signaturestore.from_json(GOLDEN / f"{name}.json")
    root = {"trusted_root.json": (GOLDEN / "trusted_root.json").read_bytes()}

    proof = await verify(store, cosign.Policy.keyless(ANYONE, root))

    assert proof.signer.identity == SUBJECT
    index = proof.facts["verify.penstock.dev/log-index"]
    time = proof.facts["verify.penstock.dev/signed-at"]
    assert proof.message == (
        f"verified signature of {store.subject} by {SUBJECT} (issuer {ISSUER}), "
        f"log index {index}, at {time}"
    )
    assert proof.facts["verify.penstock.dev/method"] == "cosign-keyless"
    assert proof.facts["verify.penstock.dev/identity"] == SUBJECT
    assert proof.facts["verify.penstock.dev/issuer"] == ISSUER
    assert proof.facts["verify.penstock.dev/log-index"].isdigit()
    assert proof.facts["verify.penstock.dev/signed-at"].startswith("20")
    assert proof.facts["verify.penstock.dev/fingerprint"].startswith("SHA256:")


@pytest.mark.parametrize("name", ["key-attestation", "keyless-attestation"])
async def test_attestation_by_the_real_cosign_is_no_signature(name: str) -> None:
    store = signaturestore.from_json(GOLDEN / f"{name}.json")
    root = {"trusted_root.json": (GOLDEN / "trusted_root.json").read_bytes()}
    keys = {"p256.pub": (GOLDEN / "p256.pub").read_bytes()}
    keyed = name.startswith("key-")

    refused = await refusal(
        store, cosign.Policy.from_secret(keys) if keyed else cosign.Policy.keyless(ANYONE, root)
    )

    assert refused.step == Step.SIGNATURE
    assert "attestation of 'https://spdx.dev/Document'" in str(refused)


async def test_any_of_several_keys_suffices(store: SignatureStore) -> None:
    old, new = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    attach(store, cosignsigner.keyed(new, store.digest))

    proof = await verify(store, cosign.Policy.from_secret({"a.pub": pem(old), "b.pub": pem(new)}))

    assert proof.signer.identity == "b.pub"


async def test_one_good_signature_among_bad_ones_suffices(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    attach(store, cosignsigner.keyless(Sigstore(), store.digest))
    attach(store, cosignsigner.keyless(sigstore, ANOTHER))
    attach(store, cosignsigner.keyless(sigstore, store.digest))

    proof = await verify(store, trusting(sigstore))

    assert proof.signer.identity == SUBJECT


async def test_email_can_be_the_identity(store: SignatureStore, sigstore: Sigstore) -> None:
    attach(store, cosignsigner.keyless(sigstore, store.digest, subject="ann@example.com"))

    proof = await verify(store, trusting(sigstore, [("example", r"^ann@example\.com$")]))

    assert proof.signer.identity == "ann@example.com"


async def test_unsigned_artifact_is_refused(store: SignatureStore, sigstore: Sigstore) -> None:
    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.FOUND
    assert str(refused) == (
        f"step 1: {store.subject} is not signed: no signature is attached to it"
    )


async def test_other_key_is_refused(store: SignatureStore) -> None:
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    attach(store, cosignsigner.keyed(other, store.digest))

    refused = await refusal(store, cosign.Policy.from_secret({"team.pub": pem(key)}))

    assert refused.step == Step.SIGNED
    assert "made by none of the trusted keys team.pub" in str(refused)


@pytest.mark.parametrize(
    ("issuer", "subject"),
    [("^" + ISSUER + "$", "^https://github.com/other/.*$"), ("^https://else.example$", ".*")],
)
async def test_other_identity_is_refused(
    store: SignatureStore, sigstore: Sigstore, issuer: str, subject: str
) -> None:
    attach(store, cosignsigner.keyless(sigstore, store.digest))

    refused = await refusal(store, trusting(sigstore, [(issuer, subject)]))

    assert refused.step == Step.IDENTITY
    assert f"certificate identity '{SUBJECT}' by issuer '{ISSUER}' does not match" in str(refused)


async def test_issuer_and_subject_of_different_pairs_do_not_add_up(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    attach(store, cosignsigner.keyless(sigstore, store.digest))
    pairs = [("^" + ISSUER + "$", "^somebody$"), ("^https://else.example$", ".*")]

    refused = await refusal(store, trusting(sigstore, pairs))

    assert refused.step == Step.IDENTITY


async def test_pattern_that_makes_others_backtrack_takes_no_time(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    subject = "https://github.com/acme/app/" + "a" * 4000 + "!"
    attach(store, cosignsigner.keyless(sigstore, store.digest, subject=subject))

    refused = await refusal(store, trusting(sigstore, [(".*", "^https://.*/(a+)+$")]))

    assert refused.step == Step.IDENTITY


async def test_large_bundle_is_refused_before_it_is_read(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    store.attach(b" " * (2 << 20), BUNDLE)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.READABLE
    assert store.counts["read_blob"] == 0


async def test_huge_manifest_is_refused_before_it_is_read(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    padding = {"padding": "x" * (10 << 20)}
    store.attach(b"{}", BUNDLE, annotations=padding)
    store.tag_signatures(store.put_blob(b"{}", SIMPLE_SIGNING, annotations=padding))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.READABLE
    assert "of 2 tried" in str(refused)
    assert store.counts["manifest"] == 0


async def test_endless_signatures_are_not_all_tried(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    bundle = cosignsigner.keyless(sigstore, ANOTHER)
    for number in range(200):
        attach(store, bundle | {"number": number})
    payload = cosignsigner.simple(ANOTHER)
    layers = [
        store.put_blob(payload, SIMPLE_SIGNING, annotations={"n": str(n)}) for n in range(200)
    ]
    store.tag_signatures(*layers)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ARTIFACT
    assert f"of {cosign.MAX_SIGNATURES} tried" in str(refused)
    assert store.counts["read_blob"] <= cosign.MAX_SIGNATURES


async def test_many_attestations_do_not_hide_a_signature(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    predicate = "dev.sigstore.bundle.predicateType"
    attested = cosignsigner.keyless(sigstore, store.digest, predicate="https://spdx.dev/Document")
    for number in range(2 * cosign.MAX_SIGNATURES):
        attach(store, attested | {"n": number}, **{predicate: "https://spdx.dev/Document"})
    attach(store, cosignsigner.keyless(sigstore, store.digest), **{predicate: cosignsigner.SIGN})

    assert await verify(store, trusting(sigstore))


@pytest.mark.parametrize("method", ["referrers", "manifest", "read_blob", "resolve"])
async def test_failing_registry_is_an_error_and_not_an_answer(
    store: SignatureStore, sigstore: Sigstore, method: str
) -> None:
    attach(store, cosignsigner.keyless(sigstore, ANOTHER))
    store.failing.add(method)

    with pytest.raises(RegistryError, match=f"the registry fails at {method}"):
        await verify(store, trusting(sigstore))


async def test_signature_that_is_listed_and_gone_is_no_error(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    attach(store, cosignsigner.keyless(sigstore, store.digest))
    store.blobs.clear()

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.READABLE


async def test_refusal_tells_of_the_signature_that_got_furthest(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    attach(store, cosignsigner.keyless(sigstore, ANOTHER))
    attach(store, cosignsigner.keyless(sigstore, store.digest, subject="eve@example.com"))
    attach(store, cosignsigner.keyless(sigstore, store.digest, sct=False))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.IDENTITY
    assert str(refused).startswith("step 11: certificate identity 'eve@example.com'")
    assert "which got furthest of 3 tried" in str(refused)


def test_every_golden_case_is_there() -> None:
    names = {f"{name}.json" for name in CASES} | {f"{key}.pub" for key in KEYS}

    assert {path.name for path in GOLDEN.iterdir()} == names | {"trusted_root.json"}
