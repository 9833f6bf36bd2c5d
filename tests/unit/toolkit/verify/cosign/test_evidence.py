"""What is read as a signature of an artifact, and what is not: steps 2 to 5 of a proof."""

import copy
import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.fakes import cosignsigner, der
from tests.fakes.cosignscene import ANOTHER, ARTIFACT, attach, pem, refusal, trusting, verify
from tests.fakes.cosignsigner import BUNDLE, SIMPLE_SIGNING, SUBJECT
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Sigstore, b64, canonical, sign
from toolkit.verify.cosign import cosign, trustedroot
from toolkit.verify.cosign import evidence as cosignevidence
from toolkit.verify.cosign import proof as cosignproof
from toolkit.verify.cosign.steps import Step
from toolkit.verify.cosign.trustedroot import TrustedRoot
from toolkit.verify.signature import VerificationError


async def test_signature_of_the_manifest_itself_counts(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    attach(store, cosignsigner.plain(sigstore, ARTIFACT))

    proof = await verify(store, trusting(sigstore))

    assert proof.signer.identity == SUBJECT


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
async def test_older_bundles_count(store: SignatureStore, sigstore: Sigstore, version: str) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest)
    bundle["mediaType"] = f"application/vnd.dev.sigstore.bundle+json;version={version}"
    material = bundle["verificationMaterial"]
    if version != "0.3":
        material["x509CertificateChain"] = {"certificates": [material.pop("certificate")]}
    store.attach(canonical(bundle), bundle["mediaType"])

    proof = await verify(store, trusting(sigstore))

    assert proof.signer.identity == SUBJECT


@pytest.mark.parametrize("legacy", [False, True])
async def test_signature_copied_from_another_artifact_is_refused(
    store: SignatureStore, sigstore: Sigstore, *, legacy: bool
) -> None:
    if legacy:
        payload = cosignsigner.simple(ANOTHER)
        annotations = cosignsigner.simple_layer(sigstore, payload)
        store.tag_signatures(store.put_blob(payload, SIMPLE_SIGNING, annotations=annotations))
    else:
        attach(store, cosignsigner.keyless(sigstore, ANOTHER))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ARTIFACT
    assert f"it signs another artifact, {ANOTHER}" in str(refused)


async def test_plain_signature_of_other_bytes_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    told, untold = (cosignsigner.plain(sigstore, ARTIFACT + b" ") for _ in range(2))
    del untold["messageSignature"]["messageDigest"]
    other = SignatureStore(ARTIFACT)
    attach(store, told)
    attach(other, untold)

    assert (await refusal(store, trusting(sigstore))).step == Step.ARTIFACT
    assert (await refusal(other, trusting(sigstore))).step == Step.SIGNED


@pytest.mark.parametrize("keep", [0, 1, 100, 1000, -1])
async def test_truncated_bundle_is_refused(
    store: SignatureStore, sigstore: Sigstore, keep: int
) -> None:
    whole = canonical(cosignsigner.keyless(sigstore, store.digest))
    store.attach(whole[:keep], BUNDLE)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.READABLE


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b"null", b'{"mediaType": 1}', b"\xff", b'{"mediaType": "x"}']
)
async def test_bundle_that_is_none_is_refused(
    store: SignatureStore, sigstore: Sigstore, data: bytes
) -> None:
    store.attach(data, BUNDLE)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.READABLE


async def test_key_in_place_of_the_certificate_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    """Anyone who demands an identity gets none from a bare key (GHSA-fx35-mq7g-6g98)."""
    key = ec.generate_private_key(ec.SECP256R1())
    payload = cosignsigner.simple(store.digest)
    annotations = cosignsigner.simple_layer(sigstore, payload, key=key, public_key=pem(key))
    store.tag_signatures(store.put_blob(payload, SIMPLE_SIGNING, annotations=annotations))
    attach(store, cosignsigner.keyed(key, store.digest))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.SIGNED
    assert "of 2 tried" in str(refused)


async def test_certificate_that_is_none_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest)
    bundle["verificationMaterial"]["certificate"]["rawBytes"] = b64(b"nothing")
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.READABLE
    assert "the certificate in the bundle cannot be read" in str(refused)


async def test_key_that_comes_along_is_not_trusted(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    """Anyone who demands a key gets no other one, however it is smuggled in."""
    trusted, smuggled = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    payload = cosignsigner.simple(store.digest)
    annotations = cosignsigner.simple_layer(
        sigstore, payload, key=smuggled, public_key=pem(smuggled)
    )
    store.tag_signatures(store.put_blob(payload, SIMPLE_SIGNING, annotations=annotations))
    attach(store, cosignsigner.keyless(sigstore, store.digest, key=smuggled))

    refused = await refusal(store, cosign.Policy.from_secret({"team.pub": pem(trusted)}))

    assert refused.step == Step.SIGNED


async def test_signature_by_another_key_than_the_certificates_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest)
    other = cosignsigner.keyless(sigstore, store.digest)
    bundle["dsseEnvelope"] = other["dsseEnvelope"]
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.SIGNED


async def test_payload_that_says_something_else_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    payload = cosignsigner.simple(store.digest, "atomic container attestation")
    annotations = cosignsigner.simple_layer(sigstore, payload)
    store.tag_signatures(store.put_blob(payload, SIMPLE_SIGNING, annotations=annotations))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.SIGNATURE


async def test_statement_under_another_type_is_refused(store: SignatureStore) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    bundle = cosignsigner.keyed(key, store.digest)
    payload = cosignsigner.statement(store.digest)
    bundle["dsseEnvelope"] = cosignsigner.envelope(key, payload, "application/json")
    attach(store, bundle)

    refused = await refusal(store, cosign.Policy.from_secret({"team.pub": pem(key)}))

    assert refused.step == Step.SIGNATURE


async def test_statement_of_another_type_is_refused(store: SignatureStore) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    bundle = cosignsigner.keyed(key, store.digest)
    payload = json.loads(cosignsigner.statement(store.digest)) | {"_type": "https://else.test/v1"}
    bundle["dsseEnvelope"] = cosignsigner.envelope(key, canonical(payload))
    attach(store, bundle)

    refused = await refusal(store, cosign.Policy.from_secret({"team.pub": pem(key)}))

    assert refused.step == Step.SIGNATURE


async def test_bundle_of_a_version_to_come_is_refused(store: SignatureStore) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    bundle = cosignsigner.keyed(key, store.digest)
    attach(store, bundle | {"mediaType": "application/vnd.dev.sigstore.bundle.v9+json"})

    refused = await refusal(store, cosign.Policy.from_secret({"team.pub": pem(key)}))

    assert refused.step == Step.READABLE


@pytest.mark.parametrize("count", [0, 2])
async def test_envelope_has_exactly_one_signature(store: SignatureStore, count: int) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    bundle = cosignsigner.keyed(key, store.digest)
    bundle["dsseEnvelope"]["signatures"] *= count
    attach(store, bundle)

    refused = await refusal(store, cosign.Policy.from_secret({"team.pub": pem(key)}))

    assert refused.step == Step.READABLE


async def test_plain_signature_whose_kind_is_hidden_is_refused(store: SignatureStore) -> None:
    """Escapes in the name hide that the manifest is needed; nothing may count in its place."""
    key = ec.generate_private_key(ec.SECP256R1())
    bundle = cosignsigner.keyed(key, store.digest)
    del bundle["dsseEnvelope"]
    bundle["messageSignature"] = {"signature": b64(sign(key, b""))}
    data = canonical(bundle).replace(b"messageSignature", rb"message\u0053ignature")
    store.attach(data, BUNDLE)

    refused = await refusal(store, cosign.Policy.from_secret({"team.pub": pem(key)}))

    assert refused.step == Step.READABLE


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*path, key))
    else:
        yield path


def prove(data: bytes, digest: str, policy: cosign.Policy, root: TrustedRoot) -> None:
    evidence = cosignevidence.from_bundle(data, digest=digest, manifest=ARTIFACT)
    cosignproof.by_identity(evidence, policy, root, "it")


FUZZED = Sigstore()
WHOLE = cosignsigner.keyless(
    FUZZED, SignatureStore(ARTIFACT).digest, log=FUZZED.rekor2, stamped_by=FUZZED
)
UNCOVERED = der.uncovered(
    b64decode(
        WHOLE["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"][0][
            "signedTimestamp"
        ]
    )
)
# The library warns of certificates that a later version of it will refuse.
UNUSED = ("kind", "version", "logIndex")
_ODD = "ignore::cryptography.utils.CryptographyDeprecationWarning"


@pytest.mark.filterwarnings(_ODD)
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(_paths(WHOLE))), st.data())
def test_damage_is_refused_and_nothing_worse(
    path: tuple[str | int, ...], data: st.DataObject
) -> None:
    bundle = copy.deepcopy(WHOLE)
    holder: Any = bundle
    for key in path[:-1]:
        holder = holder[key]
    value = holder[path[-1]]
    if len(value) > 40 and " " not in value:
        raw = bytearray(b64decode(value))
        place = data.draw(st.integers(0, len(raw) - 1))
        size = data.draw(st.integers(0, 3))
        assume(path[-1] != "signedTimestamp" or UNCOVERED.isdisjoint(range(place, place + size)))
        raw[place : place + size] = data.draw(st.binary(max_size=3))
        holder[path[-1]] = b64(bytes(raw))
    else:
        odd = st.none() | st.integers() | st.text() | st.just([]) | st.just({}) | st.booleans()
        holder[path[-1]] = data.draw(odd)
    policy, root = trusting(FUZZED), trustedroot.read(FUZZED.trusted_root())
    digest = SignatureStore(ARTIFACT).digest

    # Nothing depends on those but whether they are of the right type.
    assume(bundle != WHOLE and path[-1] not in UNUSED)

    with pytest.raises(VerificationError):
        prove(canonical(bundle), digest, policy, root)


async def test_messages_show_nothing_unprintable_and_nothing_endless(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    predicate = "\x1b[31mred\n" + "x" * 10_000
    attach(store, cosignsigner.keyless(sigstore, store.digest, predicate=predicate))

    refused = await refusal(store, trusting(sigstore))

    assert str(refused).isprintable()
    assert len(str(refused)) < 1000
