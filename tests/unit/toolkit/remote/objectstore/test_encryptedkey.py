"""A key says how often its password is hashed; beyond a bound nobody does so."""

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from toolkit.remote.objectstore import credentials, encryptedkey
from toolkit.remote.objectstore.errors import CredentialsError

KEY = ec.generate_private_key(ec.SECP256R1())


def pem(rounds: int) -> bytes:
    der = KEY.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    assert b"\x02\x02\x08\x00" in der
    written = rounds.to_bytes(4)
    # Lengths need not fit: the count is read before anything is opened.
    der = der.replace(b"\x02\x02\x08\x00", b"\x02\x04" + written, 1)
    kind = b"ENCRYPTED PRIVATE KEY-----"
    return b"-----BEGIN " + kind + b"\n" + base64.encodebytes(der) + b"-----END " + kind


@pytest.mark.parametrize(("rounds", "bearable"), [(1_000_000, True), ((1 << 31) - 1, False)])
def test_work_is_bounded(rounds: int, bearable: bool) -> None:  # noqa: FBT001 - a parameter
    assert encryptedkey.is_bearable(pem(rounds)) is bearable


def test_a_key_that_would_hold_everybody_up_is_refused() -> None:
    with pytest.raises(CredentialsError, match="takes too long"):
        credentials._private_key(pem((1 << 31) - 1), b"secret")


def test_what_openssl_writes_is_taken_and_other_derivations_are_not() -> None:
    usual = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    ssh = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )

    assert encryptedkey.is_bearable(usual)
    assert not encryptedkey.is_bearable(ssh)
    assert not encryptedkey.is_bearable(usual.replace(b"MI", b"AA", 1))
