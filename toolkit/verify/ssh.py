"""SSH signatures as ``ssh-keygen -Y sign`` and Git make them (OpenSSH PROTOCOL.sshsig).

Proof steps, each with its number below:

1. The armour holds one SSHSIG structure, and nothing behind it.
2. The namespace is ``git``: a signature for another purpose does not count.
3. The digest is SHA-256 or SHA-512.
4. The public key is one of the trusted ones, compared as a whole.
5. The algorithm fits the key: no SHA-1, no RSA below 2048 bits.
6. The key's signature covers namespace, digest algorithm and the digest of the payload.
7. A security key (``sk-``) attests that its owner touched it (PROTOCOL.u2f).

Certificates are not accepted: there is no authority to trust them by. Which keys are trusted, and
until when, is read by ``sshkeys``.
"""

import base64
import binascii
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from toolkit.remote.git.objects import Signed
from toolkit.verify import sshkeys
from toolkit.verify.signature import Signer, VerificationError

NAMESPACE: Final = sshkeys.NAMESPACE.encode()


class Step(IntEnum):
    """One step of the proof; its number is part of the message when it fails."""

    ENVELOPE = 1
    PURPOSE = 2
    DIGEST = 3
    KEY = 4
    ALGORITHM = 5
    SIGNATURE = 6
    TOUCH = 7


_MAGIC: Final = b"SSHSIG"
_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----"
_END: Final = b"-----END SSH SIGNATURE-----"
_DIGESTS: Final = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
_MIN_RSA_BITS: Final = 2048
_USER_PRESENT: Final = 1

_CURVES: Final[Mapping[bytes, tuple[ec.EllipticCurve, hashes.HashAlgorithm]]] = {
    b"nistp256": (ec.SECP256R1(), hashes.SHA256()),
    b"nistp384": (ec.SECP384R1(), hashes.SHA384()),
    b"nistp521": (ec.SECP521R1(), hashes.SHA512()),
}
_RSA_HASHES: Final[Mapping[bytes, hashes.HashAlgorithm]] = {
    b"rsa-sha2-256": hashes.SHA256(),
    b"rsa-sha2-512": hashes.SHA512(),
}
_SECURITY_KEYS: Final = (b"sk-ssh-ed25519@openssh.com", b"sk-ecdsa-sha2-nistp256@openssh.com")


def verify(signed: Signed, files: Mapping[str, bytes], *, now: datetime | None = None) -> Signer:
    """Return the signer; ``files`` maps the name of a file to lines with public keys.

    Raises:
        VerificationError: none of these keys made the signature.
    """
    try:
        keys = sshkeys.read(files, now=now or datetime.now(UTC))
    except ValueError as exc:  # (4)
        raise VerificationError(str(exc), step=Step.KEY) from exc
    try:
        envelope = _envelope(signed.signature)  # (1)
    except (IndexError, struct.error, binascii.Error) as exc:
        raise VerificationError("the SSH signature is damaged", step=Step.ENVELOPE) from exc
    if envelope.namespace != NAMESPACE:  # (2)
        raise VerificationError(
            "the SSH signature was made for another purpose than git", step=Step.PURPOSE
        )
    digest = _DIGESTS.get(envelope.digest)
    if digest is None:  # (3)
        raise VerificationError(
            "the SSH signature uses a digest other than SHA-256 or SHA-512", step=Step.DIGEST
        )
    owner = keys.owners.get(envelope.public_key)
    if owner is None:  # (4)
        raise _untrusted(envelope.public_key, keys)
    covered = _MAGIC + b"".join(
        _string(part)
        for part in (NAMESPACE, envelope.reserved, envelope.digest, digest(signed.payload).digest())
    )
    try:
        _check(envelope.public_key, envelope.signature, covered)
    except InvalidSignature as exc:  # (6)
        raise VerificationError(
            f"the signature by SSH key {_fingerprint(envelope.public_key)} does not match",
            step=Step.SIGNATURE,
        ) from exc
    except (IndexError, struct.error, ValueError) as exc:  # (1)
        raise VerificationError("the SSH signature is damaged", step=Step.ENVELOPE) from exc
    return Signer(
        identity=owner, fingerprint=_fingerprint(envelope.public_key), skipped=keys.skipped
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    public_key: bytes
    namespace: bytes
    reserved: bytes
    digest: bytes
    signature: bytes


def _untrusted(public_key: bytes, keys: sshkeys.Keys) -> VerificationError:
    message = f"the SSH key {_fingerprint(public_key)} that made this signature is not trusted"
    own = keys.refused.get(public_key)
    if own:
        return VerificationError(f"{message}: {own}", step=Step.KEY)
    return VerificationError(message, step=Step.KEY, skipped=keys.skipped)


def _envelope(armored: bytes) -> _Envelope:
    """(1) Take the armour off and the structure apart."""
    lines = armored.strip().splitlines()
    if len(lines) < 3 or lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise VerificationError("not an SSH signature", step=Step.ENVELOPE)
    reader = _Reader(base64.b64decode(b"".join(lines[1:-1]), validate=True))
    if reader.take(len(_MAGIC)) != _MAGIC or reader.number() != 1:
        raise VerificationError("the SSH signature has an unknown format", step=Step.ENVELOPE)
    envelope = _Envelope(
        public_key=reader.string(),
        namespace=reader.string(),
        reserved=reader.string(),
        digest=reader.string(),
        signature=reader.string(),
    )
    reader.end()
    return envelope


def _check(public_key: bytes, signature: bytes, covered: bytes) -> None:
    """(5, 6, 7) Verify a signature in the form that its key type prescribes."""
    key, blob = _Reader(public_key), _Reader(signature)
    kind, algorithm, raw = key.string(), blob.string(), blob.string()
    if kind in _SECURITY_KEYS:
        covered = _attested(key, blob, covered, ecdsa=kind == _SECURITY_KEYS[1])
        key = _Reader(public_key)
        key.string()
    blob.end()
    if kind == b"ssh-rsa":
        _check_rsa(key, algorithm, raw, covered)
    elif algorithm != kind:  # (5)
        raise _unfit("the SSH signature's algorithm does not fit its key")
    elif kind in {b"ssh-ed25519", _SECURITY_KEYS[0]}:
        ed25519.Ed25519PublicKey.from_public_bytes(key.string()).verify(raw, covered)
    elif kind.startswith((b"ecdsa-sha2-", b"sk-ecdsa-sha2-")):
        _check_ecdsa(key, raw, covered)
    else:
        raise _unfit(f"SSH keys of type {kind.decode('ascii', 'replace')} are not supported")


def _unfit(message: str) -> VerificationError:
    return VerificationError(message, step=Step.ALGORITHM)


def _check_rsa(key: "_Reader", algorithm: bytes, raw: bytes, covered: bytes) -> None:
    exponent, modulus = (int.from_bytes(key.string()) for _ in range(2))
    digest = _RSA_HASHES.get(algorithm)
    if digest is None:  # (5)
        raise _unfit("the SSH signature's algorithm is too weak or does not fit its key")
    if modulus.bit_length() < _MIN_RSA_BITS:
        raise _unfit(f"the RSA key has fewer than {_MIN_RSA_BITS} bits")
    public = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    # RFC 8332 allows leading zeros to be left away.
    raw = raw.rjust((modulus.bit_length() + 7) // 8, b"\0")
    public.verify(raw, covered, padding.PKCS1v15(), digest)


def _check_ecdsa(key: "_Reader", raw: bytes, covered: bytes) -> None:
    curve, digest = _CURVES.get(key.string(), (None, None))
    if curve is None or digest is None:
        raise _unfit("the SSH key lies on an unknown curve")
    public = ec.EllipticCurvePublicKey.from_encoded_point(curve, key.string())
    pair = _Reader(raw)
    r, s = (int.from_bytes(pair.string()) for _ in range(2))
    pair.end()
    public.verify(utils.encode_dss_signature(r, s), covered, ec.ECDSA(digest))


def _attested(key: "_Reader", blob: "_Reader", covered: bytes, *, ecdsa: bool) -> bytes:
    """(7) Return the bytes that a security key signs instead of the message (PROTOCOL.u2f)."""
    for _ in range(2 if ecdsa else 1):
        key.string()
    application = key.string()
    flags, counter = blob.take(1), blob.take(4)
    if not flags[0] & _USER_PRESENT:
        raise VerificationError(
            "the SSH signature was made without its owner's touch", step=Step.TOUCH
        )
    return hashlib.sha256(application).digest() + flags + counter + hashlib.sha256(covered).digest()


class _Reader:
    """Reads SSH's wire format (RFC 4251, section 5)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        """Read ``size`` bytes, all of which must be there."""
        end = self._position + size
        if end > len(self._data):
            raise IndexError(end)
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def number(self) -> int:
        """Read a uint32."""
        return int.from_bytes(self.take(4))

    def string(self) -> bytes:
        """Read a string."""
        return self.take(self.number())

    def end(self) -> None:
        """Refuse anything that is left."""
        if self._position != len(self._data):
            raise IndexError(self._position)


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _fingerprint(blob: bytes) -> str:
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"
