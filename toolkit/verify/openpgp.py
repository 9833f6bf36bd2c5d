"""Detached OpenPGP signatures, checked by Sequoia with its standard policy.

The policy refuses SHA-1 and other broken algorithms. Beyond it a certificate must be good *today*:
with an expired or revoked key a signature can be dated back at will.

No web of trust and no key server: the keyrings that are given are trusted, and nothing else.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pysequoia

from toolkit.remote.gitobjects import Signed
from toolkit.verify.signature import Signer, VerificationError


def verify(signed: Signed, keyrings: Mapping[str, bytes], *, now: datetime | None = None) -> Signer:
    """Return who made the signature; ``keyrings`` maps a file's name to one or more public keys.

    Raises:
        VerificationError: nobody in the keyrings did.

    """
    # 1. Something to trust, and a signature to check.
    trusted = {cert.fingerprint: cert for cert in _certificates(keyrings)}
    signature = _signature(signed.signature)
    # 2. The signature is valid for these bytes by one of these certificates.
    made_by = _check(signed, signature, trusted)
    # 3. That certificate is neither revoked nor expired, whatever date the signature bears.
    certificate = trusted[made_by]
    if certificate.is_revoked:
        raise VerificationError(f"the OpenPGP key {_shown(certificate)} is revoked")
    if certificate.expiration and certificate.expiration <= (now or datetime.now(UTC)):
        raise VerificationError(f"the OpenPGP key {_shown(certificate)} has expired")
    return Signer(identity=_identity(certificate), fingerprint=made_by.upper())


def _certificates(keyrings: Mapping[str, bytes]) -> Iterator[pysequoia.Cert]:
    for name, content in sorted(keyrings.items()):
        try:
            yield from pysequoia.Cert.split_bytes(content)
        except RuntimeError as exc:
            raise VerificationError(
                f"'{name}' holds no OpenPGP public key: {_first_line(exc)}"
            ) from exc


def _signature(armored: bytes) -> pysequoia.Sig:
    try:
        return pysequoia.Sig.from_bytes(armored)
    except RuntimeError as exc:
        raise VerificationError(f"no OpenPGP signature: {_first_line(exc)}") from exc


def _check(signed: Signed, signature: pysequoia.Sig, trusted: Mapping[str, pysequoia.Cert]) -> str:
    """Return the fingerprint of the certificate that vouches for the bytes."""
    try:
        result = pysequoia.verify(
            bytes=signed.payload, store=lambda _: list(trusted.values()), signature=signature
        )
    except RuntimeError as exc:
        issuer = (signature.issuer_fingerprint or signature.issuer_key_id or "unknown").upper()
        raise VerificationError(
            f"no trusted OpenPGP key made this signature, which names key {issuer}: "
            f"{_first_line(exc)}"
        ) from exc
    # pysequoia may succeed without a valid signature: only these count.
    found = [sig.certificate for sig in result.valid_sigs if sig.certificate in trusted]
    if not found:
        raise VerificationError("no trusted OpenPGP key made this signature")
    return str(found[0])


def _first_line(error: RuntimeError) -> str:
    # With RUST_BACKTRACE set the message goes on with a backtrace.
    return str(error).strip().partition("\n")[0]


def _identity(certificate: pysequoia.Cert) -> str:
    return str(certificate.user_ids[0]) if certificate.user_ids else ""


def _shown(certificate: pysequoia.Cert) -> str:
    name = _identity(certificate)
    return certificate.fingerprint.upper() + (f" of {name}" if name else "")
