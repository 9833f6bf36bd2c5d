"""Public keys that sign artifacts, logs and timestamps, with the hash that each kind signs with.

The key decides the algorithm, and what came with the signature never does. RSA signs with PKCS #1
v1.5 and SHA-256, ECDSA with the hash as long as its curve (and with SHA-256, which signers fixed
for every curve for years), Ed25519 with its own.
"""

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

_MIN_RSA_BITS: Final = 2048
_MAX_RSA_BITS: Final = 8192
_SHA256: Final = hashes.SHA256()
_CURVES: Final[Mapping[str, tuple[hashes.HashAlgorithm, ...]]] = MappingProxyType(
    {
        "secp256r1": (_SHA256,),
        "secp384r1": (hashes.SHA384(), _SHA256),
        "secp521r1": (hashes.SHA512(), _SHA256),
    }
)


def from_pem(pem: bytes) -> PublicKey:
    """Read ``-----BEGIN PUBLIC KEY-----`` (SPKI, or PKCS #1 for RSA).

    Raises:
        ValueError: it is not a public key, or one of a kind that does not count.

    """
    try:
        key = serialization.load_pem_public_key(pem)
    except UnsupportedAlgorithm as exc:
        raise ValueError("keys of this type are not supported") from exc
    except ValueError as exc:
        # The library's message may contain a part of the input.
        raise ValueError("it is not the PEM of one") from exc
    return accepted(key)


def from_der(der: bytes) -> PublicKey:
    """Read the DER of a SubjectPublicKeyInfo.

    Raises:
        ValueError: it is not a public key, or one of a kind that does not count.

    """
    try:
        return accepted(serialization.load_der_public_key(der))
    except UnsupportedAlgorithm as exc:
        raise ValueError("keys of this type are not supported") from exc


def accepted(key: object) -> PublicKey:
    """Return the key if signatures by its kind count.

    Raises:
        ValueError: they do not.

    """
    match key:
        case rsa.RSAPublicKey() if not _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS:
            raise ValueError(f"RSA keys have {_MIN_RSA_BITS} to {_MAX_RSA_BITS} bits")
        case ec.EllipticCurvePublicKey() if key.curve.name not in _CURVES:
            raise ValueError(f"keys on the curve {key.curve.name} are not supported")
        case rsa.RSAPublicKey() | ec.EllipticCurvePublicKey() | ed25519.Ed25519PublicKey():
            return key
    raise ValueError("only RSA, ECDSA and Ed25519 keys are supported")


def check(key: PublicKey, signature: bytes, message: bytes) -> None:
    """Verify a signature over ``message``.

    Raises:
        InvalidSignature: the key did not make it.

    """
    match key:
        case ed25519.Ed25519PublicKey():
            key.verify(signature, message)
        case rsa.RSAPublicKey():
            key.verify(signature, message, padding.PKCS1v15(), _SHA256)
        case ec.EllipticCurvePublicKey():
            _check_ecdsa(key, signature, message)


def spki(key: PublicKey) -> bytes:
    """Return the DER of the key's SubjectPublicKeyInfo."""
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def fingerprint(key: PublicKey) -> str:
    """Return ``SHA256:<hex>`` of the key's SubjectPublicKeyInfo."""
    return "SHA256:" + sha256(spki(key)).hexdigest()


def _check_ecdsa(key: ec.EllipticCurvePublicKey, signature: bytes, message: bytes) -> None:
    for algorithm in _CURVES[key.curve.name]:
        try:
            return key.verify(signature, message, ec.ECDSA(algorithm))
        except InvalidSignature:
            continue
    raise InvalidSignature
