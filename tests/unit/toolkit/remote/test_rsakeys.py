"""RSA keys of Secrets: which are read, and which are refused unread."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from toolkit.remote import rsakeys

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption(),
    )


@pytest.mark.parametrize("password", [b"", b"hunter2"])
def test_a_key_is_read(password: bytes) -> None:
    found = rsakeys.load(pem(KEY, password), password or None)

    assert found.private_numbers() == KEY.private_numbers()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"junk", "is not a PEM private key"),
        (pem(KEY, b"hunter2"), "is not a PEM private key"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "is not an RSA key"),
        # a key of 8,192 bits in its shortest form
        (b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A" * 6200, "is longer than 4096"),
    ],
)
def test_what_cannot_be_used_says_why(text: bytes, why: str) -> None:
    with pytest.raises(rsakeys.RSAKeyError, match=why):
        rsakeys.load(text)
