"""A key that signs commits, as ``ssh-keygen -Y sign`` does.

The machine of the demo needs neither ssh-keygen nor gpg. Only Ed25519, and nothing is ever written
to disk.
"""

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from toolkit.remote.git import signing

_ALGORITHM: Final = b"ssh-ed25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of commits; ``name`` is the comment of the public key."""

    name: str
    _key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)

    @property
    def public(self) -> str:
        """Return the public key as a line of ``authorized_keys``."""
        return f"{_ALGORITHM.decode()} {base64.b64encode(self._blob).decode()} {self.name}\n"

    @property
    def private(self) -> str:
        """Return the private key in OpenSSH's format, as a Secret holds it."""
        raw = self._key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        return raw.decode()

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint in the form of ``ssh-keygen -l``."""
        digest = hashlib.sha256(self._blob).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

    def sign(self, payload: bytes) -> str:
        """Return the armoured signature of a commit's bytes."""
        return signing.ssh(self._key, payload).decode()

    @property
    def _blob(self) -> bytes:
        return signing.blob(self._key)
