"""age identities: native X25519 keys as ``age-keygen`` writes them, and SSH private keys.

pyrage does the cryptography. It has no post-quantum identities (``AGE-SECRET-KEY-PQ-1…``) and no
passphrase-protected SSH keys; both are refused by name rather than passed over.
"""

import pyrage

from toolkit.decrypt.errors import DecryptionError


class AgeIdentities:
    """The identities of one identity file."""

    __slots__ = ("_identities",)

    def __init__(self, identities: list[pyrage.x25519.Identity | pyrage.ssh.Identity]) -> None:
        self._identities = identities

    def open(self, encrypted: str) -> bytes | None:
        """Decrypt an armoured age message; ``None`` if it is for none of the identities."""
        try:
            key: bytes = pyrage.decrypt(encrypted.strip().encode(), self._identities)
        except (pyrage.DecryptError, UnicodeEncodeError):
            return None
        return key


def load(data: bytes) -> AgeIdentities:
    """Read an identity file: one identity a line, or one OpenSSH private key.

    Raises:
        DecryptionError: a line is no identity that can be used, or there is none.
    """
    if data.lstrip().startswith(b"-----BEGIN"):
        return AgeIdentities([_ssh_identity(data.strip() + b"\n")])
    lines = enumerate(data.decode("utf-8", "replace").splitlines(), start=1)
    texts = [(number, line.strip()) for number, line in lines]
    identities = [_identity(t, number) for number, t in texts if t and not t.startswith("#")]
    if not identities:
        raise DecryptionError("there is no age identity in it")
    return AgeIdentities(identities)


def _identity(text: str, line: int) -> pyrage.x25519.Identity:
    if text.startswith("AGE-SECRET-KEY-PQ-1"):
        raise DecryptionError(f"line {line} is a post-quantum age identity: not supported")
    try:
        return pyrage.x25519.Identity.from_str(text)
    except pyrage.IdentityError:
        raise DecryptionError(f"line {line} is not an age identity") from None


def _ssh_identity(pem: bytes) -> pyrage.ssh.Identity:
    try:
        return pyrage.ssh.Identity.from_buffer(pem)
    except pyrage.IdentityError:
        raise DecryptionError("the SSH key cannot be used: wrong type, or a passphrase") from None
