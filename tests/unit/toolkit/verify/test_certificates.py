"""Certificates are read, or refused as none."""

from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.fakes.sigstore import Sigstore
from toolkit.verify import certificates

CERTIFICATE = Sigstore().authority.certificate
PEM, DER = (CERTIFICATE.public_bytes(encoding) for encoding in (Encoding.PEM, Encoding.DER))


def test_certificates_are_read() -> None:
    assert certificates.from_pem(PEM) == certificates.from_der(DER) == CERTIFICATE


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (certificates.from_pem, b""),
        (certificates.from_pem, DER),
        (certificates.from_pem, PEM.replace(b"CERTIFICATE", b"PUBLIC KEY")),
        (certificates.from_der, b""),
        (certificates.from_der, PEM),
        (certificates.from_der, DER[:-1]),
    ],
)
def test_what_is_no_certificate_is_refused(
    read: Callable[[bytes], x509.Certificate], data: bytes
) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        read(data)
