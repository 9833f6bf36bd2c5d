"""Untrusted X.509 certificates: every defect of a certificate is a ``ValueError``."""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from toolkit.verify import publickey
from toolkit.verify.publickey import PublicKey

ERRORS = (ValueError, x509.InvalidVersion, x509.DuplicateExtension, UnsupportedAlgorithm)
"""The errors of the library for a certificate that cannot be parsed, in part or as a whole."""


def from_der(der: bytes) -> x509.Certificate:
    """Read a certificate.

    Raises:
        ValueError: the bytes are not a certificate.

    """
    try:
        return x509.load_der_x509_certificate(der)
    except ERRORS as exc:
        raise ValueError("no certificate") from exc


def from_pem(pem: bytes) -> x509.Certificate:
    """Parse the first certificate of a PEM file; keys are ignored.

    Raises:
        ValueError: the file has no certificate.
    """
    try:
        return x509.load_pem_x509_certificate(pem)
    except ERRORS as exc:
        raise ValueError("no certificate") from exc


def public_key(certificate: x509.Certificate) -> PublicKey:
    """Return a certificate's key.

    Raises:
        ValueError: signatures by its kind do not count.

    """
    try:
        return publickey.accepted(certificate.public_key())
    except UnsupportedAlgorithm as exc:
        raise ValueError("keys of this type are not supported") from exc
