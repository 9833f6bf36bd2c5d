"""Signatures with a key in a file, as ``cosign sign`` and ``cosign sign-blob`` make them with one.

The form of images is the one that all versions of cosign read: a signed document that names the
digest, in a manifest under the tag ``sha256-<hex>.sig``
(https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md). Nothing is written to a
transparency log, so cosign is told ``--insecure-ignore-tlog``.
"""

import base64
import json
import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from release.errors import ReleaseError

SIGNATURE: Final = "dev.cosignproject.cosign/signature"
PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
PASSWORD: Final = "COSIGN_PASSWORD"  # noqa: S105  # the name of the variable
_KIND: Final = "cosign container image signature"


class Signer:
    """Signs with an elliptic curve key and SHA-256."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key

    @classmethod
    def load(cls, path: Path) -> "Signer":
        """Read a key in PEM (PKCS 8); the password of an encrypted one is in ``PASSWORD``.

        Raises:
            ReleaseError: it cannot be read, or is of another kind.
        """
        password = os.environ.get(PASSWORD, "").encode() or None
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as exc:
            raise ReleaseError(
                f"--key: {path} cannot be read as a private key in PEM (PKCS 8); the password of an"
                f" encrypted one is taken from {PASSWORD}: {exc}"
            ) from exc
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ReleaseError(f"--key: {path} is not an elliptic curve key, which cosign takes")
        return cls(key)

    def blob(self, content: bytes) -> bytes:
        """Return the signature of a file, which ``cosign verify-blob --signature`` reads."""
        return base64.b64encode(self._key.sign(content, ec.ECDSA(hashes.SHA256())))

    def public(self) -> bytes:
        """Return the key that verifies, in PEM."""
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def payload(repository: str, digest: str) -> bytes:
    """Return the document that is signed for what ``repository`` has under ``digest``."""
    critical = {
        "identity": {"docker-reference": repository},
        "image": {"docker-manifest-digest": digest},
        "type": _KIND,
    }
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def tag(digest: str) -> str:
    """Return the tag under which cosign looks for signatures of ``digest``."""
    return f"{digest.replace(':', '-')}.sig"
