"""Certificates of our own: an authority and the serving certificates that it signs.

Keys are ECDSA P-256: made in a millisecond, and every API server takes them. The authority signs
nothing but serving certificates, and its key never leaves the Secret that the replicas share.
Validity begins a little in the past, because clocks of API servers differ from ours.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from toolkit.errors import TransientError

CLOCK_SKEW: Final = dt.timedelta(minutes=5)


class CertificateError(TransientError):
    """Certificates or keys that were read are not what they should be."""

    default_reason = "CertificateInvalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate, with its chain if it has one, and its private key; both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a certificate says; ``issuer`` and ``subject`` name keys, not people."""

    begins: dt.datetime
    ends: dt.datetime
    hosts: frozenset[str]
    issuer: bytes
    subject: bytes

    def used_up(self, now: dt.datetime) -> bool:
        """Tell whether two thirds of the life are over, which is when to renew (as kubelets do)."""
        return now >= self.begins + (self.ends - self.begins) * 2 / 3


def new_authority(name: str, *, now: dt.datetime, lifetime: dt.timedelta) -> Pair:
    """Make a self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # A serial in the name keeps apart two authorities that are trusted at the same time.
    serial = x509.random_serial_number()
    subject = _name(f"{name} {serial:x}"[:64])
    certificate = (
        _builder(subject, subject, key, now=now, lifetime=lifetime)
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_leaf(
    authority: Pair, hosts: Sequence[str], *, now: dt.datetime, lifetime: dt.timedelta
) -> Pair:
    """Issue a serving certificate for names and addresses; it never outlives its authority.

    Raises:
        CertificateError: the authority's certificate or key does not load.
    """
    issuer, signer = _load(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    lifetime = min(lifetime, issuer.not_valid_after_utc - now)
    certificate = (
        _builder(_name(hosts[0][:64]), issuer.subject, key, now=now, lifetime=lifetime)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _pair(certificate, key)


def facts(certificate: bytes) -> Facts:
    """Read the first certificate of a PEM text.

    Raises:
        CertificateError: there is none.
    """
    first = _certificates(certificate)[0]
    return Facts(
        begins=first.not_valid_before_utc,
        ends=first.not_valid_after_utc,
        hosts=_hosts(first),
        issuer=first.issuer.public_bytes(),
        subject=first.subject.public_bytes(),
    )


def vouches(bundle: bytes, certificate: bytes) -> bool:
    """Tell whether an authority of ``bundle`` signed the last of ``certificate``'s chain, or is it.

    Raises:
        CertificateError: either holds no certificate.
    """
    last = _certificates(certificate)[-1]
    return any(_issued(authority, last) for authority in _certificates(bundle))


def holds(bundle: bytes, wanted: bytes) -> bool:
    """Tell whether every certificate of ``wanted`` is in ``bundle``; what is not PEM holds none."""
    try:
        found = set(_certificates(bundle))
    except CertificateError:
        return False
    return found.issuperset(_certificates(wanted))


def shares(bundle: bytes, other: bytes) -> bool:
    """Tell whether both hold a certificate; what is not PEM holds none."""
    try:
        return not set(_certificates(bundle)).isdisjoint(_certificates(other))
    except CertificateError:
        return False


def joined(*bundles: bytes) -> bytes:
    """Join PEM texts to one without duplicates, in order.

    Raises:
        CertificateError: one that is not empty holds no certificate.
    """
    every = (each for bundle in bundles if bundle for each in _certificates(bundle))
    texts = (each.public_bytes(serialization.Encoding.PEM) for each in every)
    return b"".join(dict.fromkeys(texts))


def _issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    if authority == certificate:
        return True
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _certificates(text: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError as exc:
        raise CertificateError("no PEM certificate where one should be") from exc


def _load(pair: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError) as exc:
        raise CertificateError("the authority's key is not a PEM private key") from exc
    certificate = _certificates(pair.certificate)[0]
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the authority's key is not an elliptic-curve key")
    if key.public_key() != certificate.public_key():
        raise CertificateError("the authority's key does not fit its certificate")
    return certificate, key


def _hosts(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    now: dt.datetime,
    lifetime: dt.timedelta,
) -> x509.CertificateBuilder:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(identifier, critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
