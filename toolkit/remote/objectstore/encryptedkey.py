"""Limit the cost of decrypting a private key with a password.

The file of the key states how often its password is hashed. OpenSSL allows up to two thousand
million times, and blocks all threads meanwhile. Only PBKDF2 within a limit is accepted (RFC 8018,
as written by ``openssl`` and ``az``), and the old form of PEM, which hashes once.
"""

import base64
import re
from typing import Final

_MOST: Final = 1_000_000
"""A sixth of a second."""
_SIZE: Final = rb"(?:[\x00-\x7f]|\x81.|\x82..|\x83...)"
_PBES2: Final = rb"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d"
_PBKDF2: Final = rb"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c"
_START: Final = re.compile(
    rb"\x30%b\x30%b%b\x30%b\x30%b%b\x30%b\x04([\x00-\x7f])"
    % (_SIZE, _SIZE, _PBES2, _SIZE, _SIZE, _PBKDF2, _SIZE),
    re.DOTALL,
)
_PLAIN: Final = re.compile(
    rb"-----BEGIN (ENCRYPTED PRIVATE KEY)-----([A-Za-z0-9+/=\s]+)-----END \1-----\s*"
)
_COUNT: Final = re.compile(rb"\x02([\x01-\x04])")


def is_bearable(pem: bytes) -> bool:
    """Tell whether a PEM key is cheap to load; also if it is not encrypted, or not a key."""
    if b"OPENSSH PRIVATE KEY" in pem:
        return False  # bcrypt, with its own number of rounds
    if b"ENCRYPTED PRIVATE KEY" not in pem:
        return True
    found = _PLAIN.fullmatch(pem)
    if found is None:
        return False  # with headers, which two readers might take for different things
    try:
        der = base64.b64decode(b"".join(found[2].split()), validate=True)
    except ValueError:
        return False
    start = _START.match(der)
    count = _COUNT.match(der, start.end() + start[1][0]) if start else None
    if count is None:
        return False
    return int.from_bytes(der[count.end() : count.end() + count[1][0]]) <= _MOST
