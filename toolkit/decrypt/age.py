"""age identities: native X25519 keys as ``age-keygen`` writes them, and SSH private keys.

pyrage does the cryptography. It has no post-quantum identities (``AGE-SECRET-KEY-PQ-1…``): these
are left to the engine. It has no passphrase-protected SSH keys, which are named and skipped.
"""

import base64
from typing import Final

import pyrage

from toolkit.decrypt.keys import Loaded


class AgeIdentities:
    """The identities of one identity file."""

    __slots__ = ("_identities",)

    def __init__(self, identities: list[pyrage.x25519.Identity | pyrage.ssh.Identity]) -> None:
        self._identities = identities

    def open(self, encrypted: str) -> bytes | None:
        """Decrypt an armoured age message; None if no identity is among its recipients.

        SOPS writes a message for each recipient. Each identity is tried on each recipient of a
        message, and no other thread runs meanwhile, so a message for many is not opened.
        """
        if _recipients(encrypted) > _MOST_RECIPIENTS:
            return None
        try:
            key: bytes = pyrage.decrypt(encrypted.strip().encode(), self._identities)
        except (pyrage.DecryptError, UnicodeEncodeError):
            return None
        return key


def load(data: bytes) -> Loaded:
    """Read an identity file: one identity a line, or one OpenSSH private key."""
    if data.lstrip().startswith(b"-----BEGIN"):
        return _ssh(data.strip() + b"\n")
    identities: list[pyrage.x25519.Identity | pyrage.ssh.Identity] = []
    left, findings = [], []
    lines = enumerate(data.decode("utf-8", "replace").splitlines(), start=1)
    texts = [(number, line.strip()) for number, line in lines]
    for number, text in texts:
        if not text or text.startswith("#"):
            continue
        if text.startswith(_POST_QUANTUM):
            left.append(text)
            continue
        if len(identities) == _MOST_IDENTITIES:
            findings.append(f"it has more than {_MOST_IDENTITIES} identities: others are not used")
            break
        try:
            identities.append(pyrage.x25519.Identity.from_str(text))
        except pyrage.IdentityError:
            findings.append(f"line {number} is not an age identity")
    if not identities and not left and not findings:
        findings.append("there is no age identity in it")
    return Loaded(
        opener=AgeIdentities(identities) if identities else None,
        left="\n".join(left).encode(),
        findings=tuple(findings),
    )


def _ssh(pem: bytes) -> Loaded:
    try:
        return Loaded(opener=AgeIdentities([pyrage.ssh.Identity.from_buffer(pem)]))
    except pyrage.IdentityError:
        return Loaded(findings=("the SSH key cannot be used: wrong type, or a passphrase",))


def _recipients(armoured: str) -> int:
    """Return how many recipients an identity is tried on (age-encryption.org/v1)."""
    lines = armoured.strip().splitlines()[1:-1]
    try:
        data = base64.b64decode("".join(lines))
    except ValueError:
        return 0  # not armour, so pyrage refuses it
    header = data.partition(b"\n---")[0]
    return header.count(b"\n-> X25519 ") + header.count(b"\n-> ssh-")


_MOST_RECIPIENTS: Final = 4
_MOST_IDENTITIES: Final = 100
_POST_QUANTUM: Final = "AGE-SECRET-KEY-PQ-1"
