"""A key to sign commits with, as ``ssh-keygen -Y sign`` does (OpenSSH PROTOCOL.sshsig).

Neither ssh-keygen nor gpg has to be on the machine that shows the demo. Only Ed25519, and nothing
is ever written to disk.
"""

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_MAGIC: Final = b"SSHSIG"
_NAMESPACE: Final = b"git"
_DIGEST: Final = b"sha512"
_ALGORITHM: Final = b"ssh-ed25519"
_WIDTH: Final = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Somebody who signs; ``name`` is the comment of the public key."""

    name: str
    _key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)

    @property
    def public(self) -> str:
        """Return the public key as a line of ``authorized_keys``."""
        return f"{_ALGORITHM.decode()} {base64.b64encode(self._blob).decode()} {self.name}\n"

    @property
    def fingerprint(self) -> str:
        """Return what ``ssh-keygen -l`` calls the key."""
        digest = hashlib.sha256(self._blob).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

    def sign(self, payload: bytes) -> str:
        """Return the armoured signature of a commit's bytes."""
        digest = hashlib.sha512(payload).digest()
        covered = _MAGIC + _strings(_NAMESPACE, b"", _DIGEST, digest)
        signature = _strings(_ALGORITHM, self._key.sign(covered))
        fields = _strings(self._blob, _NAMESPACE, b"", _DIGEST, signature)
        text = base64.b64encode(_MAGIC + (1).to_bytes(4) + fields).decode()
        lines = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]
        return "\n".join(
            ("-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", "")
        )

    @property
    def _blob(self) -> bytes:
        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return _strings(_ALGORITHM, raw)


def _strings(*parts: bytes) -> bytes:
    """Write strings in SSH's wire format (RFC 4251, section 5)."""
    return b"".join(len(part).to_bytes(4) + part for part in parts)
