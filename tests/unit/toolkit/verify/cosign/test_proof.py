"""Logs, times and certificates of a signature, each wrong in one thing: steps 5 to 11."""

import copy
import json
from base64 import b64decode
from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.fakes import cosignsigner
from tests.fakes.cosignscene import ANOTHER, ARTIFACT, attach, refusal, trusting, verify
from tests.fakes.cosignsigner import ISSUER, SUBJECT
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Json, Log, Sigstore, b64, canonical, now, sign
from toolkit.verify.cosign.steps import Step

OLDEST = "application/vnd.dev.sigstore.bundle+json;version=0.1"


async def test_promise_or_proof_of_the_log_suffices_with_a_time(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    promised = cosignsigner.keyless(sigstore, store.digest)
    promised["mediaType"] = OLDEST
    del promised["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]
    attach(store, promised)
    other = SignatureStore(ARTIFACT)
    proved = cosignsigner.keyless(sigstore, store.digest, stamped_by=sigstore)
    del proved["verificationMaterial"]["tlogEntries"][0]["inclusionPromise"]
    attach(other, proved)

    assert await verify(store, trusting(sigstore))
    assert await verify(other, trusting(sigstore))


async def test_certificate_that_has_expired_since_counts(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    long_ago = now() - timedelta(days=300)
    attach(store, cosignsigner.keyless(sigstore, store.digest, time=long_ago))

    assert await verify(store, trusting(sigstore))


async def test_certificate_that_had_expired_when_it_signed_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    time = now() - timedelta(hours=1)
    attach(
        store,
        cosignsigner.keyless(
            sigstore, store.digest, time=time, logged=time + timedelta(minutes=11)
        ),
    )

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.CERTIFICATE
    assert "its certificate was valid from" in str(refused)


@pytest.mark.parametrize("log", [1, 2])
async def test_log_entry_of_another_artifact_is_refused(
    store: SignatureStore, sigstore: Sigstore, log: int
) -> None:
    kept = sigstore.rekor if log == 1 else sigstore.rekor2
    key = ec.generate_private_key(ec.SECP256R1())
    mine, other = (
        cosignsigner.keyless(sigstore, digest, log=kept, stamped_by=sigstore, key=key)
        for digest in (store.digest, ANOTHER)
    )
    mine["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    attach(store, mine)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ENTRY
    assert "entry of another artifact, signature or certificate" in str(refused)


async def test_log_entry_of_another_certificate_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    bundle = cosignsigner.keyless(sigstore, store.digest, key=key)
    mine = sigstore.certificate(key.public_key(), subject=SUBJECT, issuer=ISSUER)
    raw = mine.public_bytes(serialization.Encoding.DER)
    bundle["verificationMaterial"]["certificate"]["rawBytes"] = b64(raw)
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ENTRY


def _other_hash(spec: Json) -> None:
    hashed = spec.get("payloadHash") or spec["data"]["hash"]
    hashed["value"] = "00" * 32


def _other_signature(spec: Json) -> None:
    if "signatures" in spec:
        spec["signatures"][0]["signature"] = b64(b"another")
    else:
        spec["signature"]["content"] = b64(b"another")


def _other_signer(spec: Json) -> None:
    instance, key = Sigstore(), ec.generate_private_key(ec.SECP256R1())
    other = instance.certificate(key.public_key(), subject=SUBJECT, issuer=ISSUER)
    encoded = b64(other.public_bytes(serialization.Encoding.PEM))
    if "signatures" in spec:
        spec["signatures"][0]["verifier"] = encoded
    else:
        spec["signature"]["publicKey"]["content"] = encoded


@pytest.mark.parametrize("envelope", [True, False])
@pytest.mark.parametrize("change", [_other_hash, _other_signature, _other_signer])
async def test_log_entry_must_agree_in_every_part(
    store: SignatureStore, sigstore: Sigstore, change: Callable[[Json], None], *, envelope: bool
) -> None:
    bundle = (
        cosignsigner.keyless(sigstore, store.digest)
        if envelope
        else cosignsigner.plain(sigstore, ARTIFACT)
    )
    entries = bundle["verificationMaterial"]["tlogEntries"]
    body = json.loads(b64decode(entries[0]["canonicalizedBody"]))
    change(body["spec"])
    entries[0] = sigstore.rekor.add(canonical(body))
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ENTRY


def _other_digest_v2(record: Json) -> None:
    record["data"]["digest"] = b64(b"0" * 32)


def _other_signature_v2(record: Json) -> None:
    record["signature"]["content"] = b64(b"another")


def _other_signer_v2(record: Json) -> None:
    record["signature"]["verifier"]["x509Certificate"]["rawBytes"] = b64(b"another")


def _key_v2(record: Json) -> None:
    record["signature"]["verifier"] = {"publicKey": {"rawBytes": b64(b"a key")}}


@pytest.mark.parametrize(
    "change", [_other_digest_v2, _other_signature_v2, _other_signer_v2, _key_v2]
)
async def test_log_entry_of_the_second_version_must_agree_in_every_part(
    store: SignatureStore, sigstore: Sigstore, change: Callable[[Json], None]
) -> None:
    log = sigstore.rekor2
    bundle = cosignsigner.keyless(sigstore, store.digest, log=log, stamped_by=sigstore)
    entries = bundle["verificationMaterial"]["tlogEntries"]
    body = json.loads(b64decode(entries[0]["canonicalizedBody"]))
    change(body["spec"]["hashedRekordV002"])
    entries[0] = log.add(canonical(body))
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ENTRY


@pytest.mark.parametrize("kind", ["intoto", "rekord", "\x1b"])
async def test_log_entry_of_another_kind_is_refused(
    store: SignatureStore, sigstore: Sigstore, kind: str
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest)
    body = {"kind": kind, "apiVersion": "0.0.2", "spec": {}}
    bundle["verificationMaterial"]["tlogEntries"] = [sigstore.rekor.add(canonical(body))]
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.ENTRY
    assert str(refused).isprintable()


async def test_promise_by_another_log_is_refused(store: SignatureStore, sigstore: Sigstore) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest)
    entry = bundle["verificationMaterial"]["tlogEntries"][0]
    other = Log("rekor.sigstore.test", ec.generate_private_key(ec.SECP256R1()), 1)
    entry["inclusionPromise"]["signedEntryTimestamp"] = b64(
        sign(
            other.key,
            canonical(
                {
                    "body": entry["canonicalizedBody"],
                    "integratedTime": int(entry["integratedTime"]),
                    "logID": sigstore.rekor.key_id.hex(),
                    "logIndex": int(entry["logIndex"]),
                }
            ),
        )
    )
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.LOGGED
    assert "was not signed by https://rekor.sigstore.test" in str(refused)


async def test_log_that_is_not_trusted_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    other = Log("rekor.sigstore.test", ec.generate_private_key(ec.SECP256R1()), 1)
    attach(store, cosignsigner.keyless(sigstore, store.digest, log=other))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.LOGGED
    assert f"its transparency log {other.key_id.hex()} is not trusted" in str(refused)


def _later(entry: Json) -> None:
    entry["integratedTime"] = str(int(entry["integratedTime"]) + 1)


def _elsewhere(entry: Json) -> None:
    entry["inclusionProof"]["logIndex"] = str(int(entry["inclusionProof"]["logIndex"]) + 1)


def _shorter(entry: Json) -> None:
    entry["inclusionProof"]["hashes"].pop()


def _longer(entry: Json) -> None:
    entry["inclusionProof"]["hashes"].append(b64(b"x" * 32))


def _other_checkpoint(entry: Json) -> None:
    checkpoint = entry["inclusionProof"]["checkpoint"]
    text, _, signatures = checkpoint["envelope"].partition("\n\n")
    origin, size, root = text.split("\n")
    checkpoint["envelope"] = f"{origin}\n{int(size) + 1}\n{root}\n\n{signatures}"


def _damaged_checkpoint(entry: Json) -> None:
    entry["inclusionProof"]["checkpoint"]["envelope"] = "nothing"


def _checkpoint_by_another(entry: Json) -> None:
    proof = entry["inclusionProof"]
    other = Log("rekor.sigstore.test", ec.generate_private_key(ec.SECP256R1()), 1)
    envelope = other.checkpoint(int(proof["treeSize"]), b64decode(proof["rootHash"]))
    # It calls itself by the id of the trusted log.
    text, _, line = envelope.partition("\n\n")
    signature = b64decode(line.split(" ")[2])
    forged = b64(b64decode(entry["logId"]["keyId"])[:4] + signature[4:])
    proof["checkpoint"]["envelope"] = f"{text}\n\n— rekor.sigstore.test {forged}\n"


def _tree_of_ones_own(entry: Json) -> None:
    proof = entry["inclusionProof"]
    own = Log("rekor.sigstore.test", ec.generate_private_key(ec.SECP256R1()), 1)
    mine = own.add(b64decode(entry["canonicalizedBody"]))["inclusionProof"]
    entry["inclusionProof"] = mine | {"checkpoint": proof["checkpoint"]}


@pytest.mark.parametrize(
    "tamper",
    [
        _checkpoint_by_another,
        _tree_of_ones_own,
        _later,
        _elsewhere,
        _shorter,
        _longer,
        _other_checkpoint,
        _damaged_checkpoint,
    ],
)
async def test_log_entry_that_is_not_proved_is_refused(
    store: SignatureStore, sigstore: Sigstore, tamper: Callable[[Json], None]
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest)
    attach(store, bundle)
    forged = copy.deepcopy(bundle)
    tamper(forged["verificationMaterial"]["tlogEntries"][0])
    other = SignatureStore(ARTIFACT)
    attach(other, forged)

    assert await verify(store, trusting(sigstore))
    assert (await refusal(other, trusting(sigstore))).step == Step.LOGGED


async def test_signature_in_no_log_is_refused(store: SignatureStore, sigstore: Sigstore) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest, stamped_by=sigstore)
    del bundle["verificationMaterial"]["tlogEntries"]
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.LOGGED


async def test_log_of_the_second_version_tells_no_time(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest, log=sigstore.rekor2)
    bundle["verificationMaterial"]["tlogEntries"][0]["integratedTime"] = str(int(now().timestamp()))
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.TIME


async def test_timestamp_by_another_authority_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    bundle = cosignsigner.keyless(
        sigstore, store.digest, log=sigstore.rekor2, stamped_by=Sigstore()
    )
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.TIME
    assert "timestamp authority that is trusted" in str(refused)


async def test_timestamp_of_another_signature_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    mine, other = (
        cosignsigner.keyless(sigstore, store.digest, log=sigstore.rekor2, stamped_by=sigstore)
        for _ in range(2)
    )
    stamps = other["verificationMaterial"]["timestampVerificationData"]
    mine["verificationMaterial"]["timestampVerificationData"] = stamps
    attach(store, mine)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.TIME


@pytest.mark.parametrize(
    "stamp", [b"", b"\0", b"0\x80", b"0" * 5000, b"0\x82\x00\x05" + b"\x02" * 5]
)
async def test_damaged_timestamp_is_refused(
    store: SignatureStore, sigstore: Sigstore, stamp: bytes
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest, log=sigstore.rekor2, stamped_by=sigstore)
    data = bundle["verificationMaterial"]["timestampVerificationData"]
    data["rfc3161Timestamps"][0]["signedTimestamp"] = b64(stamp)
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.TIME


async def test_timestamp_outside_the_certificates_life_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    time = now() - timedelta(hours=2)
    bundle = cosignsigner.keyless(
        sigstore,
        store.digest,
        log=sigstore.rekor2,
        stamped_by=sigstore,
        time=time,
        logged=time + timedelta(hours=1),
    )
    attach(store, bundle)

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.CERTIFICATE


async def test_certificate_by_another_authority_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    authority = Sigstore().authority
    attach(store, cosignsigner.keyless(sigstore, store.digest, authority=authority))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.CERTIFICATE
    assert "issued by no authority that is trusted" in str(refused)


async def test_certificate_for_another_purpose_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    purpose = ExtendedKeyUsageOID.SERVER_AUTH
    attach(store, cosignsigner.keyless(sigstore, store.digest, purpose=purpose))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.CERTIFICATE
    assert "not one for signing code" in str(refused)


async def test_certificate_in_no_certificate_log_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    attach(store, cosignsigner.keyless(sigstore, store.digest, sct=False))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.CERTIFICATE_LOGGED


async def test_certificate_in_another_certificate_log_is_refused(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    attach(store, cosignsigner.keyless(sigstore, store.digest, certificate_log=other))

    refused = await refusal(store, trusting(sigstore))

    assert refused.step == Step.CERTIFICATE_LOGGED


async def test_index_that_no_log_vouches_for_is_not_told(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    bundle = cosignsigner.keyless(sigstore, store.digest, log=sigstore.rekor2, stamped_by=sigstore)
    entry = bundle["verificationMaterial"]["tlogEntries"][0]
    entry["logIndex"] = "424242"
    attach(store, bundle)

    proof = await verify(store, trusting(sigstore))

    assert proof.facts["verify.penstock.dev/log-index"] == entry["inclusionProof"]["logIndex"]
