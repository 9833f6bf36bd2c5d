"""Merkle proofs (RFC 9162): every true one holds, and none for another entry, place or size."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import sigstore
from toolkit.verify.cosign import transparencylog, trustedroot
from toolkit.verify.cosign.messages import Checkpoint, InclusionProof, LogEntry, LogId
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
