"""What counts as an OpenPGP signature, against those of gpg."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pysequoia
import pytest
from pysequoia import packet

from tests.testdata.signatures.generate import Author
from toolkit.remote.git.objects import Signed
from toolkit.verify import openpgp
from toolkit.verify.signature import VerificationError

PAYLOAD = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nwhat was signed\n"


def signed_by(author: Author, payload: bytes = PAYLOAD) -> Signed:
    return Signed(payload=payload, signature=author.sign(payload))


@pytest.mark.parametrize("name", ["ed25519", "rsa"])
def test_signature_of_a_trusted_key_names_its_owner(authors: dict[str, Author], name: str) -> None:
    author = authors[name]

    signer = openpgp.verify(signed_by(author), {"keys.asc": author.public})

    assert signer.identity == f"{name} <{name}@example.org>"
    assert signer.fingerprint == author.key.key


def test_signer_is_found_among_several_keyrings(authors: dict[str, Author]) -> None:
    keyrings = {
        "one.asc": authors["stranger"].public,
        "two.asc": authors["rsa"].public + authors["ed25519"].public,
    }

    signer = openpgp.verify(signed_by(authors["ed25519"]), keyrings)

    assert signer.fingerprint == authors["ed25519"].key.key


def test_changed_payload_is_refused(authors: dict[str, Author]) -> None:
    signed = signed_by(authors["ed25519"])
    tampered = Signed(payload=signed.payload + b"more", signature=signed.signature)

    with pytest.raises(
        VerificationError, match="step 2: no trusted OpenPGP key made this signature"
    ):
        openpgp.verify(tampered, {"keys.asc": authors["ed25519"].public})


def test_signature_of_an_unknown_key_is_refused_and_the_key_named(
    authors: dict[str, Author],
) -> None:
    with pytest.raises(VerificationError, match=authors["stranger"].key.key):
        openpgp.verify(signed_by(authors["stranger"]), {"keys.asc": authors["ed25519"].public})


def test_expired_key_is_refused_even_for_a_signature_from_its_lifetime(
    authors: dict[str, Author],
) -> None:
    with pytest.raises(VerificationError, match=r"step 2: .* has expired"):
        openpgp.verify(signed_by(authors["expired"]), {"keys.asc": authors["expired"].public})


def test_expired_key_was_good_in_its_lifetime(authors: dict[str, Author]) -> None:
    then = datetime(2020, 4, 1, tzinfo=UTC)

    signer = openpgp.verify(
        signed_by(authors["expired"]), {"keys.asc": authors["expired"].public}, now=then
    )

    assert signer.fingerprint == authors["expired"].key.key


def test_revoked_key_is_refused(authors: dict[str, Author]) -> None:
    with pytest.raises(VerificationError, match=r"step 2: .* is revoked"):
        openpgp.verify(signed_by(authors["revoked"]), {"keys.asc": authors["revoked"].public})


def test_no_keyring_trusts_nobody(authors: dict[str, Author]) -> None:
    with pytest.raises(VerificationError, match="no trusted OpenPGP key"):
        openpgp.verify(signed_by(authors["ed25519"]), {})


def test_file_without_a_key_is_named(authors: dict[str, Author]) -> None:
    with pytest.raises(
        VerificationError, match=r"step 1: .*'readme\.txt': it holds no OpenPGP public key"
    ):
        openpgp.verify(signed_by(authors["ed25519"]), {"readme.txt": b"hello"})


def test_expired_subkey_of_a_good_key_is_refused(authors: dict[str, Author]) -> None:
    author = authors["expired-subkey"]
    signed = signed_by(author)
    then = datetime(2020, 4, 1, tzinfo=UTC)

    assert openpgp.verify(signed, {"keys.asc": author.public}, now=then)

    with pytest.raises(VerificationError, match=r"step 3: signing subkey .* has expired"):
        openpgp.verify(signed, {"keys.asc": author.public})


@pytest.mark.parametrize("signature", [b"", b"-----BEGIN PGP SIGNATURE-----\nx", b"\x00\xff"])
def test_damaged_signature_is_refused(authors: dict[str, Author], signature: bytes) -> None:
    with pytest.raises(VerificationError) as caught:
        openpgp.verify(
            Signed(payload=PAYLOAD, signature=signature), {"a": authors["ed25519"].public}
        )

    assert caught.value.step == openpgp.Step.SIGNATURE


def test_messages_hold_no_backtrace() -> None:
    code = (
        "import sys\n"
        "from toolkit.remote.git.objects import Signed\n"
        "from toolkit.verify import openpgp\n"
        "from toolkit.verify.signature import VerificationError\n"
        "try: openpgp.verify(Signed(payload=b'', signature=b'junk'), {})\n"
        "except VerificationError as exc: print(exc)\n"
    )

    said = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"RUST_BACKTRACE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert len(said.splitlines()) == 1
    assert "no OpenPGP signature" in said


def test_signature_is_good_without_an_end_of_the_key(authors: dict[str, Author]) -> None:
    later = datetime.now(UTC) + timedelta(days=36500)

    signer = openpgp.verify(
        signed_by(authors["ed25519"]), {"keys.asc": authors["ed25519"].public}, now=later
    )

    assert signer.fingerprint == authors["ed25519"].key.key


@pytest.mark.parametrize("name", ["brainpool", "sha1", "future"])
def test_key_that_cannot_be_used_is_skipped_and_named(
    authors: dict[str, Author], name: str
) -> None:
    keyrings = {"a.asc": authors[name].public, "b.asc": authors["ed25519"].public}

    signer = openpgp.verify(signed_by(authors["ed25519"]), keyrings)

    assert signer.fingerprint == authors["ed25519"].key.key
    (skipped,) = signer.skipped
    assert skipped.startswith(f"'a.asc': key {authors[name].key.key} is not valid now")


@pytest.mark.parametrize("name", ["brainpool", "sha1", "future"])
def test_key_that_cannot_be_used_vouches_for_nothing(authors: dict[str, Author], name: str) -> None:
    author = authors[name]

    with pytest.raises(VerificationError, match=f"'a.asc': key {author.key.key}"):
        openpgp.verify(signed_by(author), {"a.asc": author.public})


@pytest.mark.parametrize(
    "damaged",
    [
        b"nonsense",
        b"",
        b"\x00\xff" * 40,
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx\n-----END PGP PUBLIC KEY BLOCK-----\n",
    ],
    ids=["text", "empty", "binary", "armoured"],
)
def test_damaged_entry_hides_no_other(authors: dict[str, Author], damaged: bytes) -> None:
    keyrings = {"a.asc": damaged, "b.asc": authors["ed25519"].public}

    signer = openpgp.verify(signed_by(authors["ed25519"]), keyrings)

    (skipped,) = signer.skipped
    assert skipped.startswith("'a.asc': ")


def test_block_that_was_cut_off_hides_no_other(authors: dict[str, Author]) -> None:
    both = authors["rsa"].public[:300] + b"\n" + authors["ed25519"].public

    assert openpgp.verify(signed_by(authors["ed25519"]), {"a.asc": both})


def test_signature_of_an_unknown_type_on_a_key_is_ignored(authors: dict[str, Author]) -> None:
    author = authors["retired-subkey"]
    key = bytes(pysequoia.Cert.from_bytes(author.public))
    signature = bytearray(
        next(
            part.body
            for part in packet.PacketPile.from_bytes(key)
            if part.tag == packet.Tag.Signature
        )
    )
    signature[1] = 0x1E
    odd = b"\xc2\xff" + len(signature).to_bytes(4) + bytes(signature)

    with pytest.raises(VerificationError, match=r"step 3: .* is revoked"):
        openpgp.verify(signed_by(author), {"a": key + odd})


@pytest.mark.parametrize("name", ["retired-subkey", "retired-primary"])
def test_signature_from_before_a_revocation_is_refused_whatever_its_reason(
    authors: dict[str, Author], name: str
) -> None:
    with pytest.raises(VerificationError, match="is revoked"):
        openpgp.verify(signed_by(authors[name]), {"a.asc": authors[name].public})


def test_revocation_in_another_copy_of_the_key_counts(authors: dict[str, Author]) -> None:
    author = authors["revoked"]
    fresh = fresh_copy(author)
    assert openpgp.verify(signed_by(author), {"a.asc": fresh})

    for keyrings in (
        {"a.asc": fresh, "b.asc": author.public},
        {"a.asc": author.public, "b.asc": fresh},
    ):
        with pytest.raises(VerificationError, match="is revoked"):
            openpgp.verify(signed_by(author), keyrings)


def test_revocation_beside_the_key_counts(authors: dict[str, Author]) -> None:
    author = authors["ed25519"]
    [revocation] = [
        path.read_bytes().replace(b":-----BEGIN", b"-----BEGIN")  # as gpg tells to do
        for path in Path(author.key.environment["GNUPGHOME"], "openpgp-revocs.d").glob("*.rev")
        if path.stem.lower() == pysequoia.Cert.from_bytes(author.public).fingerprint
    ]

    for keyrings in (
        {"a.asc": author.public, "b.asc": revocation},
        {"a.asc": revocation + author.public},
    ):
        with pytest.raises(VerificationError, match="is revoked"):
            openpgp.verify(signed_by(author), keyrings)
    assert openpgp.verify(signed_by(authors["rsa"]), {"a": authors["rsa"].public, "b": revocation})


def fresh_copy(author: Author) -> bytes:
    """Return the public key as it was before it was revoked."""
    return subprocess.run(
        ["gpg", "--quiet", "--batch", "--armor", "--export", author.key.key],
        env=os.environ | author.key.environment,
        capture_output=True,
        check=True,
    ).stdout


def test_more_keys_than_are_counted_are_refused(authors: dict[str, Author]) -> None:
    public = authors["ed25519"].public
    keyrings = {"all.asc": public * openpgp.MOST_KEYS}

    openpgp.verify(signed_by(authors["ed25519"]), keyrings)
    with pytest.raises(VerificationError, match="more than 1000 OpenPGP keys, copies included"):
        openpgp.verify(signed_by(authors["ed25519"]), keyrings | {"one.asc": public})
