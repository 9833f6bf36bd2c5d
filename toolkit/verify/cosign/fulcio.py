"""Read and verify a signing certificate: steps 9 and 10 of a cosign proof.

The rules are those of Fulcio's certificate profile (sigstore/fulcio docs/oid-info.md). The chain is
the one in the trusted root, in its order; certificates that come with a signature are never part of
it.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.certificate_transparency import LogEntryType, SignedCertificateTimestamp
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from toolkit.verify import certificates, publickey
from toolkit.verify.cosign.steps import Step
from toolkit.verify.cosign.trustedroot import Authority, TrustedRoot
from toolkit.verify.signature import VerificationError

_OID: Final = "1.3.6.1.4.1.57264.1."
_ISSUER: Final = x509.ObjectIdentifier(_OID + "8")
_OLD_ISSUER: Final = x509.ObjectIdentifier(_OID + "1")
_USERNAME: Final = x509.ObjectIdentifier(_OID + "7")
_UNDERSTOOD: Final = (
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
)
_HASHES: Final = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_MAX_TIMESTAMPS: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UTF8_STRING: Final = 0x0C


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The identity in a certificate; ``subjects`` are all its alternative names."""

    issuer: str
    subjects: tuple[str, ...]


def check(certificate: x509.Certificate, times: Iterable[datetime], root: TrustedRoot) -> None:
    """Prove that the certificate is trusted for signing at each of these times.

    Raises:
        VerificationError: it is not (steps 9 and 10).

    """
    with _Readable():
        for time in times:
            _check_valid(certificate, time)
        issuer = _issuer(certificate, list(times), root)
        _check_usage(certificate)
        _check_published(certificate, issuer, root)


def claims(certificate: x509.Certificate) -> Claims:
    """Return the identity; it is only valid after the certificate was verified.

    Raises:
        VerificationError: the certificate has no identity (step 11).
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        issuer = _issuer_claim(certificate.extensions)
        subjects = (
            *names.get_values_for_type(x509.RFC822Name),
            *names.get_values_for_type(x509.UniformResourceIdentifier),
            *names.get_values_for_type(x509.DNSName),
            *(
                _utf8(name.value)
                for name in names.get_values_for_type(x509.OtherName)
                if name.type_id == _USERNAME
            ),
        )
    except (
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
        *certificates.ERRORS,
    ) as exc:
        raise VerificationError(
            "the certificate lacks the issuer or the subject", step=Step.IDENTITY
        ) from exc
    return Claims(issuer=issuer, subjects=subjects)


def _check_valid(certificate: x509.Certificate, time: datetime) -> None:
    """(9) The certificate was valid when it signed."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not start <= time <= end:
        raise _untrusted(
            f"its certificate was valid from {_stamp(start)} to {_stamp(end)}, and signed at "
            f"{_stamp(time)}"
        )


def _issuer(
    certificate: x509.Certificate, times: Sequence[datetime], root: TrustedRoot
) -> x509.Certificate:
    """(9) Return the certificate of the trusted authority that issued this one."""
    for authority in root.authorities:
        if not all(authority.period.covers(time) for time in times):
            continue
        for position, issuer in enumerate(authority.chain):
            if _issued(certificate, issuer):
                _check_chain(authority, position, times)
                return issuer
    raise _untrusted("its certificate was issued by no authority that is trusted at that time")


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    if certificate.issuer != issuer.subject:
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (TypeError, InvalidSignature, *certificates.ERRORS):
        return False
    # Ed25519 names no hash.
    algorithm = certificate.signature_hash_algorithm
    return algorithm is None or isinstance(algorithm, _HASHES)


def _check_chain(authority: Authority, position: int, times: Sequence[datetime]) -> None:
    """(9) Each authority up to the root may issue the one below (RFC 5280, section 6.1)."""
    path = authority.chain[position:]
    for below, (issuer, above) in enumerate(zip(path, (*path[1:], None), strict=True)):
        if above is not None and not _issued(issuer, above):
            raise _untrusted(f"the trusted root's chain of {authority.name} is broken")
        for time in times:
            if not issuer.not_valid_before_utc <= time <= issuer.not_valid_after_utc:
                raise _untrusted(
                    f"the certificate of the authority {authority.name} was not valid at "
                    f"{_stamp(time)}"
                )
        constraints = _extension(issuer, x509.BasicConstraints)
        usage = _extension(issuer, x509.KeyUsage)
        length = constraints.path_length if constraints else None
        if (
            not (constraints and constraints.ca and usage and usage.key_cert_sign)
            or (length is not None and length < below)
            or not _understood(issuer)
        ):
            raise _untrusted(f"the authority {authority.name} may not issue such a certificate")


def _check_usage(certificate: x509.Certificate) -> None:
    """(9) The certificate is for signing code, and for nothing that could issue others."""
    usage = _extension(certificate, x509.KeyUsage)
    purposes = _extension(certificate, x509.ExtendedKeyUsage)
    constraints = _extension(certificate, x509.BasicConstraints)
    if (
        not (usage and usage.digital_signature and not usage.key_cert_sign)
        or not (purposes and ExtendedKeyUsageOID.CODE_SIGNING in purposes)
        or (constraints and constraints.ca)
        or not _understood(certificate)
    ):
        raise _untrusted("its certificate is not one for signing code")


def _understood(certificate: x509.Certificate) -> bool:
    return all(
        extension.oid in _UNDERSTOOD for extension in certificate.extensions if extension.critical
    )


_E = TypeVar("_E", x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage)


def _extension(certificate: x509.Certificate, kind: type[_E]) -> _E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _check_published(
    certificate: x509.Certificate, issuer: x509.Certificate, root: TrustedRoot
) -> None:
    """(10) A trusted log signed that it has the certificate (RFC 6962, section 3.2)."""
    try:
        timestamps = certificate.extensions.get_extension_for_class(
            x509.PrecertificateSignedCertificateTimestamps
        ).value
    except x509.ExtensionNotFound as exc:
        raise _unpublished("its certificate has no timestamp of a certificate log") from exc
    for timestamp in list(timestamps)[:_MAX_TIMESTAMPS]:
        log = root.certificate_logs.get(timestamp.log_id)
        if log is None or timestamp.entry_type is not LogEntryType.PRE_CERTIFICATE:
            continue
        # cryptography leaves the zone away; it is UTC.
        if not log.period.covers(timestamp.timestamp.replace(tzinfo=UTC)):
            continue
        try:
            publickey.check(
                log.key, timestamp.signature, _published(timestamp, certificate, issuer)
            )
        except InvalidSignature:
            continue
        return
    raise _unpublished("its certificate was published in no certificate log that is trusted")


def _published(
    timestamp: SignedCertificateTimestamp,
    certificate: x509.Certificate,
    issuer: x509.Certificate,
) -> bytes:
    """Return the bytes that a log signs: the certificate without the timestamps, and its issuer."""
    milliseconds = (timestamp.timestamp.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    issuer_key = hashes.Hash(hashes.SHA256())
    issuer_key.update(
        issuer.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    body = certificate.tbs_precertificate_bytes
    extensions = timestamp.extension_bytes
    return b"".join(
        [
            # version 1, certificate_timestamp, time, precert_entry
            struct.pack(">BBQH", 0, 0, milliseconds, 1),
            issuer_key.finalize(),
            len(body).to_bytes(3),
            body,
            struct.pack(">H", len(extensions)),
            extensions,
        ]
    )


def _issuer_claim(extensions: x509.Extensions) -> str:
    for oid in (_ISSUER, _OLD_ISSUER):
        try:
            value = extensions.get_extension_for_oid(oid).value
        except x509.ExtensionNotFound:
            continue
        if isinstance(value, x509.UnrecognizedExtension):
            # The old one holds the bare text, the new one a DER string.
            return _utf8(value.value) if oid == _ISSUER else value.value.decode()
    raise ValueError("no issuer")


def _utf8(der: bytes) -> str:
    """Decode a DER UTF8String."""
    tag, length, text = *der[:2].ljust(2, b"\0"), der[2:]
    if length & 0x80:
        octets = length & 0x7F
        length, text = int.from_bytes(text[:octets]), text[octets:]
    if tag != _UTF8_STRING or length != len(text):
        raise ValueError("no UTF8String")
    return text.decode()


class _Readable:
    """Converts errors of extensions, which the library parses when they are accessed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, certificates.ERRORS):
            raise _untrusted("its certificate cannot be read") from error


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _untrusted(message: str) -> VerificationError:
    return VerificationError(message, step=Step.CERTIFICATE)


def _unpublished(message: str) -> VerificationError:
    return VerificationError(message, step=Step.CERTIFICATE_LOGGED)
