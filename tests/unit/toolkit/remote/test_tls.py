"""Which client certificates and keys of Secrets and kubeconfigs are used."""

import datetime as dt
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from toolkit.remote import tls
from toolkit.remote.errors import AuthError

EC = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
PLAIN = NoEncryption()
LOCKED = BestAvailableEncryption(b"secret")


def certificate(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "client")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    begins = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = builder.not_valid_before(begins).not_valid_after(begins + dt.timedelta(9999))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("key", [EC, RSA], ids=["EC", "RSA"])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_plain_key_is_used(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, form: PrivateFormat
) -> None:
    text = key.private_bytes(Encoding.PEM, form, PLAIN)

    tls.client_context(None, certificate(key), text)
    tls.client_context(None, certificate(key), b"Bag Attributes\n" + text.replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_encrypted_key_is_refused(form: PrivateFormat) -> None:
    text = EC.private_bytes(Encoding.PEM, form, LOCKED)

    with pytest.raises(AuthError, match="must have no passphrase"):
        tls.client_context(None, certificate(EC), text)


def test_no_round_of_an_encrypted_key_is_computed() -> None:
    locked = _with_rounds(20_000_000)
    plain = EC.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, PLAIN)
    began = time.process_time()

    with pytest.raises(AuthError):
        tls.client_context(None, certificate(EC), locked)
    tls.client_context(None, locked + certificate(EC), plain)
    tls.client_context(None, certificate(EC), locked + plain)

    assert time.process_time() - began < 1


def test_large_key_is_refused() -> None:
    text = RSA.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, PLAIN)
    large = text.replace(b"\n-----END", b"\n" + b"A" * 6000 + b"\n-----END")

    with pytest.raises(ValueError, match="8192 bits at most"):
        tls.load_pair(ssl.create_default_context(), certificate(RSA), large)


def _with_rounds(number: int) -> bytes:
    """Return an encrypted key, PEM, that wants this many rounds of PBKDF2 (RFC 8018)."""
    digest = _tagged(0x30, _oid("2a864886f70d0209"), b"\x05\x00")
    rounds = _tagged(0x30, _tagged(0x04, bytes(16)), _tagged(0x02, number.to_bytes(4)), digest)
    derived = _tagged(0x30, _oid("2a864886f70d01050c"), rounds)
    cipher = _tagged(0x30, _oid("60864801650304012a"), _tagged(0x04, bytes(16)))
    scheme = _tagged(0x30, _oid("2a864886f70d01050d"), _tagged(0x30, derived, cipher))
    key = ssl.DER_cert_to_PEM_cert(_tagged(0x30, scheme, _tagged(0x04, bytes(16))))
    return key.replace("CERTIFICATE", "ENCRYPTED PRIVATE KEY").encode()


def _oid(digits: str) -> bytes:
    return _tagged(0x06, bytes.fromhex(digits))


def _tagged(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    length = (len(body),) if len(body) < 128 else (0x81, len(body))
    return bytes((tag, *length)) + body
