"""Detached OpenPGP signatures, checked by Sequoia with its standard policy.

Proof steps, each with its number below:

1. There are certificates that are good today, whatever date the signature bears.
2. The signature is valid for these bytes by one of these certificates.
3. The subkey that made it, if it was one, is good today too.

The policy refuses SHA-1 and other broken algorithms. Beyond it a certificate and its subkeys must
be good *today*: with an expired or revoked key a signature can be dated back at will. For the same
reason a revocation counts whatever its reason and date, and wherever in the keyrings it stands.

A key that cannot be used is skipped, and hides no other. No web of trust and no key server: the
keyrings that are given are trusted, and nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

import pysequoia
from pysequoia import packet

from toolkit.remote.git.objects import Signed
from toolkit.skipped import Skipped
from toolkit.verify.signature import Signer, VerificationError


class Step(IntEnum):
    """One step of the proof; its number is part of the message when it fails."""

    CERTIFICATES = 1
    SIGNATURE = 2
    SUBKEY = 3


def verify(signed: Signed, keyrings: Mapping[str, bytes], *, now: datetime | None = None) -> Signer:
    """Return the signer; ``keyrings`` maps the name of a file to one or more public keys.

    Raises:
        VerificationError: no key of the keyrings made the signature.
    """
    now = now or datetime.now(UTC)
    signature = _signature(signed.signature)
    keyring = _read(keyrings, now)  # (1)
    if not keyring.trusted and not keyring.refused and keyring.skipped:
        raise VerificationError(
            "the secret holds no OpenPGP public key that can be used",
            step=Step.CERTIFICATES,
            skipped=keyring.skipped,
        )
    try:
        made_by, with_key = _check(signed, signature, keyring.trusted)  # (2)
    except VerificationError as exc:
        raise VerificationError(
            "; ".join([exc.finding, *keyring.refused]), step=exc.step, skipped=keyring.skipped
        ) from exc
    certificate = keyring.trusted[made_by]
    ailment = certificate.ailment_of_subkey(with_key, now)
    if ailment:  # (3)
        raise VerificationError(
            f"signing subkey {with_key.upper()} {ailment}",
            step=Step.SUBKEY,
            skipped=keyring.skipped,
        )
    return Signer(
        identity=certificate.identity,
        fingerprint=made_by.upper(),
        skipped=tuple(map(str, keyring.skipped)),
    )


@dataclass(frozen=True, slots=True)
class _Certificate:
    """A key as all keyrings together have it."""

    cert: pysequoia.Cert
    identity: str
    expiration: datetime | None
    packets: Sequence[packet.Packet]

    @property
    def shown(self) -> str:
        """Return fingerprint and owner, for a message."""
        fingerprint = self.cert.fingerprint.upper()
        return f"{fingerprint} of {self.identity}" if self.identity else fingerprint

    def ailment(self, now: datetime) -> str:
        """Return why the key does not count today; empty if it does."""
        if self.cert.is_revoked or any(
            _signs(found, packet.SignatureType.KeyRevocation) for found in self.packets
        ):
            return "is revoked"
        return "has expired" if self.expiration and self.expiration <= now else ""

    def ailment_of_subkey(self, fingerprint: str, now: datetime) -> str:
        """Return why a signature by this key of the certificate does not count today."""
        created: datetime | None = None
        bindings: dict[datetime, datetime | None] = {}
        for found in self.packets:
            if found.tag == packet.Tag.PublicSubkey:
                created = found.key_created if found.fingerprint == fingerprint else None
            elif created and _signs(found, packet.SignatureType.SubkeyRevocation):
                return "is revoked"
            elif created and _signs(found, packet.SignatureType.SubkeyBinding):
                life, since = found.key_validity_period, found.signature_created
                if since is not None:  # Without a signature time the binding is invalid.
                    bindings[since] = created + life if life else None
        end = bindings[max(bindings)] if bindings else None
        return "has expired" if end is not None and end <= now else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keyring:
    trusted: Mapping[str, _Certificate]
    refused: Sequence[str]
    skipped: tuple[Skipped, ...]


def _read(keyrings: Mapping[str, bytes], now: datetime) -> _Keyring:
    found, revoked, skipped = _merged(keyrings)
    trusted: dict[str, _Certificate] = {}
    refused = []
    for fingerprint, (name, cert) in found.items():
        try:
            certificate = _certificate(cert)
        except RuntimeError:
            skipped.append(Skipped(entry=name, finding=_UNUSABLE.format(fingerprint.upper())))
            continue
        alone = "is revoked" if revoked & {fingerprint, fingerprint[-_KEY_ID:]} else ""
        if ailment := alone or certificate.ailment(now):
            refused.append(f"key {certificate.shown} {ailment}")
        else:
            trusted[fingerprint] = certificate
    return _Keyring(trusted=trusted, refused=refused, skipped=tuple(skipped))


MOST_KEYS: Final = 1000
"""Keys in all keyrings; each is merged with its copies, and may be tried on the signature."""
_KEY_ID: Final = 16
"""Digits at the end of a fingerprint."""
_UNREADABLE: Final = "it holds no OpenPGP public key, or a damaged one"
_UNUSABLE: Final = (
    "key {} is not valid now: its curve is not supported, it signs itself with SHA-1, or its date"
    " is in the future"
)


def _merged(
    keyrings: Mapping[str, bytes],
) -> tuple[dict[str, tuple[str, pysequoia.Cert]], set[str], list[Skipped]]:
    """Return each key once, merged, so that a revocation in one copy counts for all.

    Also return the fingerprints or key ids in revocations that are stored without their key.

    Raises:
        VerificationError: there are more keys than are used; a revocation may be among the others.
    """
    found: dict[str, tuple[str, pysequoia.Cert]] = {}
    revoked: set[str] = set()
    skipped: list[Skipped] = []
    count = 0
    for name, content in sorted(keyrings.items()):
        for block in _ARMOUR.findall(content) or [content]:
            certs = _certificates(block)
            count += len(certs)
            if count > MOST_KEYS:
                raise VerificationError(
                    f"the secret holds more than {MOST_KEYS} OpenPGP keys, copies included: remove"
                    " those that nobody signs with",
                    step=Step.CERTIFICATES,
                )
            alone = _revocations(block) if not certs else frozenset()
            revoked |= alone
            if not certs and not alone:
                skipped.append(Skipped(entry=name, finding=_UNREADABLE))
            for cert in certs:
                _, before = found.get(cert.fingerprint, (name, cert))
                found[cert.fingerprint] = (name, before.merge(cert))
    return found, revoked, skipped


def _revocations(block: bytes) -> frozenset[str]:
    """Return the keys that a block without a key revokes (``gpg --generate-revocation``).

    Their signatures are not verified: accepting a forged one only refuses more.
    """
    try:
        found = [
            each.issuer_fingerprint or each.issuer_key_id or ""
            for each in packet.PacketPile.from_bytes(block)
            if _signs(each, packet.SignatureType.KeyRevocation)
        ]
    except RuntimeError:
        return frozenset()
    return frozenset(filter(None, found))


def _certificates(block: bytes) -> Sequence[pysequoia.Cert]:
    try:
        return pysequoia.Cert.split_bytes(block)
    except RuntimeError:
        return ()


def _certificate(cert: pysequoia.Cert) -> _Certificate:
    """Read what Sequoia computes from a key.

    Raises:
        RuntimeError: no part of it is valid now: an unknown curve, SHA-1, a date to come.

    """
    return _Certificate(
        cert,
        identity=str(cert.user_ids[0]) if cert.user_ids else "",
        expiration=cert.expiration,
        packets=tuple(packet.PacketPile.from_bytes(bytes(cert))),
    )


# Up to the next block, so that one that was cut off hides no other.
_ARMOUR: Final = re.compile(
    rb"-----BEGIN PGP (?:(?!-----BEGIN PGP ).)*-----END PGP [A-Z ]+-----", re.DOTALL
)


def _signs(found: packet.Packet, kind: packet.SignatureType) -> bool:
    if found.tag != packet.Tag.Signature:
        return False
    try:
        return bool(found.signature_type == kind)
    except RuntimeError:  # The type of the signature is unknown.
        return False


def _signature(armored: bytes) -> pysequoia.Sig:
    try:
        return pysequoia.Sig.from_bytes(armored)
    except RuntimeError as exc:
        raise VerificationError(
            f"no OpenPGP signature: {_first_line(exc)}", step=Step.SIGNATURE
        ) from exc


def _check(
    signed: Signed, signature: pysequoia.Sig, trusted: Mapping[str, _Certificate]
) -> tuple[str, str]:
    """Return the fingerprints of the certificate and of its key that made the signature."""
    store = [certificate.cert for certificate in trusted.values()]
    try:
        result = pysequoia.verify(bytes=signed.payload, store=lambda _: store, signature=signature)
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


def _first_line(error: RuntimeError) -> str:
    # With RUST_BACKTRACE set, a backtrace follows the message.
    return str(error).strip().partition("\n")[0]
