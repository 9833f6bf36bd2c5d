"""JSON Web Tokens that the key in a Secret signs, for token services (RFC 7523)."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from toolkit.decrypt.errors import DecryptionError
from toolkit.remote import rsakeys


def sign(
    algorithm: Literal["RS256", "PS256"],
    head: Mapping[str, Any],
    claims: Mapping[str, Any],
    *,
    pem: str,
    entry: str,
) -> str:
    """Return the token; ``pem`` holds the key, perhaps among certificates.

    Raises:
        DecryptionError: there is no RSA key in it, or it has a passphrase; names the ``entry``.
    """
    key = _key(pem, entry)
    parts = ({**head, "alg": algorithm, "typ": "JWT"}, claims)
    signed = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    signature = key.sign(signed.encode(), _PADDINGS[algorithm], hashes.SHA256())
    return f"{signed}.{encoded(signature)}"


def encoded(data: bytes) -> str:
    """Return base64url without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


_PADDINGS: Final = {
    "RS256": padding.PKCS1v15(),
    "PS256": padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32),
}
_KEY: Final = re.compile(
    r"-----BEGIN (?P<kind>(?:RSA )?PRIVATE KEY)-----[^-]{1,32768}-----END (?P=kind)-----"
)


def _key(pem: str, entry: str) -> RSAPrivateKey:
    found = _KEY.search(pem)
    shown = f"the private key in the entry '{entry}' of the Secret"
    if not found:
        raise DecryptionError(f"{shown} is missing, or is not a PEM private key without a password")
    try:
        return rsakeys.load(found[0].encode())
    except rsakeys.RSAKeyError as exc:
        raise DecryptionError(f"{shown} {exc}") from exc
