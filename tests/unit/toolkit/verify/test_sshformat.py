"""The wire format of SSH, and the options of signers: what is malformed is named."""

import base64
import struct
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from toolkit.verify import git, ssh, sshkeys
from toolkit.verify.signature import VerificationError

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PUBLIC = ed25519.Ed25519PrivateKey.generate().public_key()
ONE, TWO = (struct.pack(">I", version) for version in (1, 2))
LINE = PUBLIC.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def strings(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


@pytest.mark.parametrize(
    "armored",
    [b"", b"-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----\n", b"a\nU1NIU0lH\nb\n"],
)
def test_what_has_no_armour_is_no_signature(armored: bytes) -> None:
    with pytest.raises(VerificationError, match="not an SSH signature") as caught:
        ssh._envelope(armored)

    assert caught.value.step == ssh.Step.ENVELOPE


@pytest.mark.parametrize("begins", [b"SSHGIS" + ONE, b"SSHSIG" + TWO], ids=["magic", "version"])
def test_what_has_another_format_is_not_read(begins: bytes) -> None:
    body = base64.b64encode(begins + strings(b"key", b"git", b"", b"sha512", b"signature"))
    armored = b"-----BEGIN SSH SIGNATURE-----\n%s\n-----END SSH SIGNATURE-----\n" % body

    with pytest.raises(VerificationError, match="has an unknown format") as caught:
        ssh._envelope(armored)

    assert caught.value.step == ssh.Step.ENVELOPE


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (b"ssh-dss", "SSH keys of type ssh-dss are not supported"),
        (b"ecdsa-sha2-nistp256", "the SSH key lies on an unknown curve"),
    ],
)
def test_key_that_nobody_verifies_with_does_not_count(kind: bytes, complaint: str) -> None:
    with pytest.raises(VerificationError, match=complaint) as caught:
        ssh._check(strings(kind, b"nistp0", b"x"), strings(kind, b"x"), b"covered")

    assert caught.value.step == ssh.Step.ALGORITHM


def test_what_is_cut_off_is_not_read() -> None:
    with pytest.raises(IndexError):
        ssh._Reader(b"\0\0\0\x05four").string()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (b"namespaces=git", "without a value in double quotes"),
        (b'namespaces="git"x', "without a value in double quotes"),
        (b"namespaces=", "without a value in double quotes"),
        (
            b'valid-after="20260102",valid-before="20260101"',
            "a valid-before that is not later than its valid-after",
        ),
    ],
)
def test_option_that_is_malformed_keeps_its_key_from_counting(
    options: bytes, complaint: str
) -> None:
    found = sshkeys.read({"a.sshpub": b"a@example.org " + options + b" " + LINE}, now=NOW)

    assert [complaint in each for each in found.skipped] == [True]
    assert not found.owners


def test_line_that_revokes_and_cannot_be_read_is_refused() -> None:
    with pytest.raises(VerificationError, match=r"'a\.sshpub' line 1"):
        git.skipped({"a.sshpub": b"@revoked nonsense\n"})
