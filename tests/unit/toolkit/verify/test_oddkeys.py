"""Keys and certificates of kinds that nobody here verifies with."""

import binascii
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from toolkit.verify import certificates, publickey
from toolkit.verify.cosign import timestampauthority
from toolkit.verify.notation import stores

_KNOWN, _ODD = bytes.fromhex("06032b6570"), bytes.fromhex("06032b657f")
START = datetime(2026, 1, 1, tzinfo=UTC)
KEY, ANOTHER = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))


def odd(encoding: Encoding) -> bytes:
    """Return a public key whose algorithm nobody knows."""
    der = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    der = der.replace(_KNOWN, _ODD)
    if encoding is Encoding.DER:
        return der
    body = binascii.b2a_base64(der)
    return b"-----BEGIN PUBLIC KEY-----\n" + body + b"-----END PUBLIC KEY-----\n"


def certificate(
    *, authority: bool | None = None, by: ed25519.Ed25519PrivateKey = ANOTHER
) -> x509.Certificate:
    """Return a certificate that says, or does not say, whether it is an authority's."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), serial_number=1)
    builder = builder.not_valid_before(START).not_valid_after(START + timedelta(days=1))
    if authority is not None:
        constraints = x509.BasicConstraints(ca=authority, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
    return builder.sign(by, None)


def test_public_key_of_an_odd_kind_does_not_count() -> None:
    with pytest.raises(ValueError, match="keys of this type are not supported"):
        publickey.from_der(odd(Encoding.DER))
    with pytest.raises(ValueError, match="keys of this type are not supported"):
        publickey.from_pem(odd(Encoding.PEM))


def test_certificate_with_a_key_of_an_odd_kind_does_not_count() -> None:
    der = certificate().public_bytes(Encoding.DER)
    end = der.index(_KNOWN, der.index(_KNOWN) + 1)  # the first names the signature's kind
    changed = certificates.from_der(der[:end] + _ODD + der[end + len(_ODD) :])

    with pytest.raises(ValueError, match="keys of this type are not supported"):
        certificates.public_key(changed)


@pytest.mark.parametrize(("authority", "found"), [(True, True), (False, False), (None, False)])
def test_authorities_say_that_they_are(*, authority: bool | None, found: bool) -> None:
    assert timestampauthority._is_authority(certificate(authority=authority)) is found
    assert stores._is_authority(certificate(authority=authority)) is found


def test_certificate_that_names_itself_and_is_signed_by_another_key_did_not_sign_itself() -> None:
    assert not stores._signed_itself(certificate())
    assert stores._signed_itself(certificate(by=KEY))
