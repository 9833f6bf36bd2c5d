"""Sign a commit as ``git commit -S`` does: with an OpenPGP key, or with an SSH key.

The private key is part of a request and is used in a Git worker; it is never written. The signature
covers the bytes of the commit without a signature (Git: ``sign_commit_to_strbuf``). SSH signatures
are those of ``ssh-keygen -Y sign -n git`` (OpenSSH PROTOCOL.sshsig).
"""

import base64
import hashlib
import warnings
from typing import Final, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from toolkit.remote.git.errors import GitAuthError
from toolkit.remote.git.wire import SigningKey

Private: TypeAlias = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
"""Keys that sign over SSH."""


def sign(key: SigningKey, payload: bytes) -> bytes:
    """Return the armoured signature of a commit's bytes.

    Raises:
        GitAuthError: the key cannot be read, or does not sign.
    """
    if key.kind == "gpg":
        return _openpgp(key, payload)
    return ssh(_private(key), payload)


def fingerprint(key: SigningKey) -> str:
    """Return the fingerprint of an OpenPGP key, in hexadecimal digits.

    Raises:
        GitAuthError: the key cannot be read.
    """
    import pysequoia  # noqa: PLC0415 - as in `_openpgp`

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return str(pysequoia.Tsk.from_bytes(key.key).extract_certificate().fingerprint)
    except Exception as exc:  # as in `_openpgp`
        raise GitAuthError("the OpenPGP key cannot be read") from exc


def ssh(private: Private, payload: bytes) -> bytes:
    """Return an SSH signature in the namespace of Git."""
    digest = hashlib.sha512(payload).digest()
    covered = _MAGIC + _strings(_NAMESPACE, b"", _DIGEST, digest)
    algorithm, signature = _signed(private, covered)
    fields = _strings(blob(private), _NAMESPACE, b"", _DIGEST, _strings(algorithm, signature))
    text = base64.b64encode(_MAGIC + (1).to_bytes(4) + fields)
    lines = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]
    return b"\n".join((_BEGIN, *lines, _END, b""))


def blob(private: Private) -> bytes:
    """Return the public key in SSH's wire format."""
    line = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return base64.b64decode(line.split()[1])


def _openpgp(key: SigningKey, payload: bytes) -> bytes:
    # Loading takes a while, and most commits are not signed with it.
    import pysequoia  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            secret = pysequoia.Tsk.from_bytes(key.key)
            signer = secret.signer(key.passphrase or None)
            made = pysequoia.sign(signer, payload, mode=pysequoia.SignatureMode.DETACHED)
    except Exception as exc:  # The text of any error of Sequoia may contain the key.
        raise GitAuthError(
            "the signing key of the commit cannot be used: 'git.asc' must be an armoured OpenPGP "
            "secret key that signs and is good today, and 'passphrase' its passphrase"
        ) from exc
    # gpg puts no comment into the armour, and neither does Git expect one.
    return bytes(made)


def _private(key: SigningKey) -> Private:
    password = key.passphrase.encode() or None
    openssh = b"BEGIN OPENSSH PRIVATE KEY" in key.key
    try:
        load = load_ssh_private_key if openssh else load_pem_private_key
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Deprecated keys are refused below.
            found = load(key.key, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise GitAuthError(
            "the signing key of the commit cannot be used: 'identity' must be a private key, and "
            "'password' its password if it has one"
        ) from exc
    if isinstance(found, rsa.RSAPrivateKey) and found.key_size < _MIN_RSA_BITS:
        raise GitAuthError(
            f"the RSA key 'identity' has less than {_MIN_RSA_BITS} bits: use another"
        )
    if not isinstance(found, Private):
        raise GitAuthError("the key 'identity' is of a kind that Git does not sign with")
    return found


def _signed(private: Private, covered: bytes) -> tuple[bytes, bytes]:
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return b"ssh-ed25519", private.sign(covered)
    if isinstance(private, rsa.RSAPrivateKey):
        return b"rsa-sha2-512", private.sign(covered, padding.PKCS1v15(), hashes.SHA512())
    name, algorithm = _CURVES[private.curve.name]
    r, s = utils.decode_dss_signature(private.sign(covered, ec.ECDSA(algorithm)))
    return b"ecdsa-sha2-" + name, _strings(_mpint(r), _mpint(s))


def _strings(*parts: bytes) -> bytes:
    """Write strings in SSH's wire format (RFC 4251, section 5)."""
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def _mpint(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1)


_MAGIC: Final = b"SSHSIG"
_NAMESPACE: Final = b"git"
_DIGEST: Final = b"sha512"
_WIDTH: Final = 70
_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----"
_END: Final = b"-----END SSH SIGNATURE-----"
_MIN_RSA_BITS: Final = 2048
_CURVES: Final[dict[str, tuple[bytes, hashes.HashAlgorithm]]] = {
    "secp256r1": (b"nistp256", hashes.SHA256()),
    "secp384r1": (b"nistp384", hashes.SHA384()),
    "secp521r1": (b"nistp521", hashes.SHA512()),
}
