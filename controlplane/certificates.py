"""Certificates of one instance: two authorities, one serving certificate, one client each.

The front-proxy authority is apart from the client authority: anyone who holds a client certificate
must not be able to speak for others with the ``X-Remote-User`` headers of the aggregation layer
(https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/). Keys are P-256,
because RSA keys alone would take a second to make. Everything expires after a year.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME: Final = dt.timedelta(days=365)

_CLOCK_SKEW: Final = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(…)"

    def write(self, directory: Path, name: str) -> None:
        """Write ``<name>.crt`` and ``<name>.key``, readable by us only."""
        write_private(directory / f"{name}.crt", self.certificate)
        write_private(directory / f"{name}.key", self.key)


class Authority:
    """A certificate authority that signs serving and client certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, name: str) -> Self:
        """Make a new self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = _usage(signs_certificates=True)
        builder = (
            _builder(subject, issuer=subject, key=key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(_key_identifier(key), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, pair: KeyPair) -> Self:
        """Take up an authority that was written before."""
        key = serialization.load_pem_private_key(pair.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("an authority of ours has a P-256 key")
        return cls(x509.load_pem_x509_certificate(pair.certificate), key)

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key."""
        return _pair(self._certificate, self._key)

    def serving(self, name: str, *, hosts: Sequence[str]) -> KeyPair:
        """Issue a certificate for a TLS server that answers under ``hosts``, names or addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, *, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a certificate that authenticates as ``user``, a member of ``groups``.

        https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
        """
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, issuer=self._certificate.subject, key=key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(_key_identifier(key), critical=False)
            # RFC 5280 section 4.2.1.1; strict verifiers insist.
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return _pair(builder.sign(self._key, hashes.SHA256()), key)


def signing_key() -> tuple[bytes, bytes]:
    """Make the key that signs service-account tokens; return (private, public) as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _key_bytes(key), public


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody but us may read, not even for a moment."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    encoded = certificate.public_bytes(serialization.Encoding.PEM)
    return KeyPair(certificate=encoded, key=_key_bytes(key))


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
