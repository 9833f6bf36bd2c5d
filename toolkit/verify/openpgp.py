"""Detached OpenPGP signatures, checked by Sequoia with its standard policy.

Proof steps, each with its number below:

1. There are certificates that are good today, whatever date the signature bears.
2. The signature is valid for these bytes by one of these certificates.
3. The subkey that made it, if it was one, is good today too.

The policy refuses SHA-1 and other broken algorithms. Beyond it a certificate must be good *today*:
with an expired or revoked key a signature can be dated back at will.

No web of trust and no key server: the keyrings that are given are trusted, and nothing else.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import IntEnum

import pysequoia
from pysequoia import packet

from toolkit.remote.git.objects import Signed
from toolkit.verify.signature import Signer, VerificationError


class Step(IntEnum):
    """One step of the proof; its number is part of the message when it fails."""

    CERTIFICATES = 1
    SIGNATURE = 2
    SUBKEY = 3


def verify(signed: Signed, keyrings: Mapping[str, bytes], *, now: datetime | None = None) -> Signer:
    """Return who made the signature; ``keyrings`` maps a file's name to one or more public keys.

    Raises:
        VerificationError: nobody in the keyrings did.

    """
    now = now or datetime.now(UTC)
    signature = _signature(signed.signature)
    trusted: dict[str, pysequoia.Cert] = {}  # (1)
    refused = []
    for certificate in _certificates(keyrings):
        ailment = _ailment(certificate, now)
        if ailment:
            refused.append(f"key {_shown(certificate)} {ailment}")
        else:
            trusted[certificate.fingerprint] = certificate
    try:
        made_by, with_key = _check(signed, signature, trusted)  # (2)
    except VerificationError as exc:
        raise VerificationError("; ".join([exc.finding, *refused]), step=exc.step) from exc
    certificate = trusted[made_by]
    end = _end_of_subkey(certificate, with_key)
    if end is not None and end <= now:  # (3)
        raise VerificationError(f"signing subkey {with_key.upper()} has expired", step=Step.SUBKEY)
    return Signer(identity=_identity(certificate), fingerprint=made_by.upper())


def _certificates(keyrings: Mapping[str, bytes]) -> Iterator[pysequoia.Cert]:
    for name, content in sorted(keyrings.items()):
        try:
            yield from pysequoia.Cert.split_bytes(content)
        except RuntimeError as exc:
            raise VerificationError(
                f"'{name}' holds no OpenPGP public key: {_first_line(exc)}",
                step=Step.CERTIFICATES,
            ) from exc


def _signature(armored: bytes) -> pysequoia.Sig:
    try:
        return pysequoia.Sig.from_bytes(armored)
    except RuntimeError as exc:
        raise VerificationError(
            f"no OpenPGP signature: {_first_line(exc)}", step=Step.SIGNATURE
        ) from exc


def _check(
    signed: Signed, signature: pysequoia.Sig, trusted: Mapping[str, pysequoia.Cert]
) -> tuple[str, str]:
    """Return the fingerprints of the certificate and of its key that vouch for the bytes."""
    try:
        result = pysequoia.verify(
            bytes=signed.payload, store=lambda _: list(trusted.values()), signature=signature
        )
    except RuntimeError as exc:
        issuer = (signature.issuer_fingerprint or signature.issuer_key_id or "unknown").upper()
        raise VerificationError(
            f"no trusted OpenPGP key made this signature, which names key {issuer}: "
            f"{_first_line(exc)}",
            step=Step.SIGNATURE,
        ) from exc
    # pysequoia may succeed without a valid signature: only these count.
    for valid in result.valid_sigs:
        if valid.certificate in trusted:
            return str(valid.certificate), str(valid.signing_key)
    raise VerificationError("no trusted OpenPGP key made this signature", step=Step.SIGNATURE)


def _ailment(certificate: pysequoia.Cert, now: datetime) -> str:
    if certificate.is_revoked:
        return "is revoked"
    return "has expired" if certificate.expiration and certificate.expiration <= now else ""


def _end_of_subkey(certificate: pysequoia.Cert, fingerprint: str) -> datetime | None:
    """Return when a subkey ends by its newest binding; ``None`` for never or the primary key."""
    created = None
    bindings: dict[datetime, datetime | None] = {}
    for found in packet.PacketPile.from_bytes(bytes(certificate)):
        if found.tag == packet.Tag.PublicSubkey:
            created = found.key_created if found.fingerprint == fingerprint else None
        elif created and found.signature_type == packet.SignatureType.SubkeyBinding:
            life = found.key_validity_period
            bindings[found.signature_created] = created + life if life else None
    return bindings[max(bindings)] if bindings else None


def _first_line(error: RuntimeError) -> str:
    # With RUST_BACKTRACE set the message goes on with a backtrace.
    return str(error).strip().partition("\n")[0]


def _identity(certificate: pysequoia.Cert) -> str:
    return str(certificate.user_ids[0]) if certificate.user_ids else ""


def _shown(certificate: pysequoia.Cert) -> str:
    name = _identity(certificate)
    return certificate.fingerprint.upper() + (f" of {name}" if name else "")
