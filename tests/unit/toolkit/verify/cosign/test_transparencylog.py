"""Merkle proofs (RFC 9162): every true one holds, and none for another entry, place or size."""

import hashlib
import json
from base64 import b64decode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import sigstore
from toolkit.verify.cosign import transparencylog, trustedroot
from toolkit.verify.cosign.evidence import Evidence
from toolkit.verify.cosign.messages import (
    Checkpoint,
    InclusionProof,
    KindVersion,
    LogEntry,
    LogId,
)
from toolkit.verify.cosign.steps import Step
from toolkit.verify.cosign.trustedroot import Log
from toolkit.verify.signature import VerificationError


def leaf(number: int) -> bytes:
    return hashlib.sha256(b"\0%d" % number).digest()


def proof(index: int, size: int) -> tuple[InclusionProof, bytes]:
    leaves = [leaf(number) for number in range(size)]
    path = tuple(sigstore._path(index, leaves))
    root = sigstore._root(leaves)
    return InclusionProof(tree_size=size, root_hash=root, log_index=index, hashes=path), root


@pytest.mark.parametrize("size", range(1, 18))
def test_true_proofs_hold(size: int) -> None:
    for index in range(size):
        path, root = proof(index, size)

        assert transparencylog._root(b"%d" % index, path) == root


@given(st.data())
def test_false_proofs_do_not(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    index = data.draw(st.integers(0, size - 1))
    path, root = proof(index, size)
    claimed = InclusionProof(
        tree_size=data.draw(st.integers(0, 70)),
        root_hash=root,
        log_index=data.draw(st.integers(0, 70)),
        hashes=tuple(data.draw(st.lists(st.sampled_from([*path.hashes, root]), max_size=8))),
    )
    entry = data.draw(st.integers(0, 40))

    found = transparencylog._root(b"%d" % entry, claimed)

    if found == root:
        assert entry == index
        assert claimed.hashes == path.hashes


def test_checkpoint_with_witnesses_is_read() -> None:
    log = sigstore.Log("rekor.test", ec.generate_private_key(ec.SECP256R1()), 1)
    trusted = sigstore.Sigstore()
    trusted.rekor = log
    known = trustedroot.read(trusted.trusted_root()).logs[log.key_id]
    text = log.checkpoint(7, b"x" * 32)
    head, _, signature = text.partition("\n\n")
    witnessed = f"{head}\n\n— witness {sigstore.b64(log.key_id[:4] + b'no')}\n{signature}"

    assert transparencylog._checkpoint(witnessed, known) == (7, b"x" * 32)


def test_log_without_entries_proves_nothing() -> None:
    trusted = sigstore.Sigstore()
    log = trusted.rekor
    known = trustedroot.read(trusted.trusted_root()).logs[log.key_id]
    nothing = InclusionProof(
        tree_size=0, root_hash=b"", checkpoint=Checkpoint(envelope=log.checkpoint(0, b""))
    )
    entry = LogEntry(log_id=LogId(key_id=log.key_id), canonicalized_body=b"{}")

    with pytest.raises(VerificationError, match="does not lead to the root"):
        transparencylog._check_proof(entry, nothing, known)


TRUSTED = sigstore.Sigstore()
KNOWN: Log = trustedroot.read(TRUSTED.trusted_root()).logs[TRUSTED.rekor.key_id]
CERTIFICATE = TRUSTED.authority.certificate
EVIDENCE = Evidence(
    message=b"signed",
    signature=b"signature",
    payload=None,
    certificate=CERTIFICATE,
    entries=(),
    timestamps=(),
)


def body(value: bytes = b"signed") -> dict[str, Any]:
    pem = CERTIFICATE.public_bytes(Encoding.PEM)
    return {
        "kind": "hashedrekord",
        "apiVersion": "0.0.1",
        "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": hashlib.sha256(value).hexdigest()}},
            "signature": {
                "content": sigstore.b64(b"signature"),
                "publicKey": {"content": sigstore.b64(pem)},
            },
        },
    }


def entry(text: bytes, kind_version: KindVersion | None = None) -> LogEntry:
    return LogEntry(
        log_id=LogId(key_id=TRUSTED.rekor.key_id),
        canonicalized_body=text,
        kind_version=kind_version,
    )


def test_entry_of_the_evidence_is_its_entry() -> None:
    said = KindVersion(kind="hashedrekord", version="0.0.1")

    transparencylog._check_body(entry(json.dumps(body()).encode(), said), EVIDENCE)


@pytest.mark.parametrize(
    ("text", "said", "why"),
    [
        (b"[]", None, "cannot be read"),
        (json.dumps(body() | {"kind": "rekord"}).encode(), None, "is a 'rekord 0.0.1'"),
        (json.dumps(body()).encode(), KindVersion(kind="dsse", version="0.0.1"), "another kind"),
        (json.dumps(body(b"other")).encode(), None, "the entry of another artifact"),
    ],
)
def test_entry_of_something_else_is_refused(
    text: bytes, said: KindVersion | None, why: str
) -> None:
    with pytest.raises(VerificationError, match=why) as caught:
        transparencylog._check_body(entry(text, said), EVIDENCE)

    assert caught.value.step == Step.ENTRY


def test_entry_without_promise_and_proof_is_refused() -> None:
    root = trustedroot.read(TRUSTED.trusted_root())

    with pytest.raises(VerificationError, match="without promise and proof"):
        transparencylog.check(entry(json.dumps(body()).encode()), EVIDENCE, root)


def test_checkpoint_that_another_key_signed_is_refused() -> None:
    other = sigstore.Log(TRUSTED.rekor.origin, ec.generate_private_key(ec.SECP256R1()), 1)
    text, _, line = other.checkpoint(7, b"x" * 32).partition("\n\n")
    name, dash, signature = line.rstrip().rpartition(" ")
    # It calls itself by the id of the trusted log.
    forged = sigstore.b64(TRUSTED.rekor.key_id[:4] + b64decode(signature)[4:])

    with pytest.raises(VerificationError, match="was not signed by"):
        transparencylog._checkpoint(f"{text}\n\n{name}{dash}{forged}\n", KNOWN)


@pytest.mark.parametrize("envelope", ["nothing", "a\nb\nc\n\n— a !", "log\nmany\nroot\n\n"])
def test_damaged_checkpoint_is_refused(envelope: str) -> None:
    with pytest.raises(VerificationError, match=r"is damaged|was not signed"):
        transparencylog._checkpoint(envelope, KNOWN)


@pytest.mark.parametrize("told", [None, 8])
def test_proof_must_lead_to_the_checkpoint(told: int | None) -> None:
    text = b"0"
    path, root = proof(0, 7)
    envelope = TRUSTED.rekor.checkpoint(told or 0, root)
    claimed = InclusionProof(
        tree_size=path.tree_size,
        root_hash=root,
        log_index=0,
        hashes=path.hashes,
        checkpoint=Checkpoint(envelope=envelope) if told else None,
    )

    why = "not for the checkpoint" if told else "has no checkpoint"
    with pytest.raises(VerificationError, match=why):
        transparencylog._check_proof(entry(text), claimed, KNOWN)


def test_time_that_no_clock_shows_is_refused() -> None:
    with pytest.raises(VerificationError, match="no possible time"):
        transparencylog._time(1 << 62)
