"""One encrypted value: ``ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`` (``aes/cipher.go``).

The tag binds the value to the keys above it, without list positions. It does not cover the type: a
user who changes ``type`` changes how the same text is parsed, if the text is valid for that type.
"""

import base64
import math
import os
import re
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolkit.decrypt import scalars
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.tree import Comment, Scalar, Timestamp, bytes_of, mac_bytes, text_of

MARKER: Final = "ENC[AES256_GCM,"
"""The beginning of every encrypted value."""


def looks_encrypted(text: str) -> bool:
    """Tell whether ``text`` is written as an encrypted value."""
    return _VALUE.fullmatch(text) is not None


class Cipher:
    """Opens and seals the values of one document with its data key."""

    __slots__ = ("_gcm",)

    def __init__(self, key: bytes) -> None:
        self._gcm = AESGCM(key)

    def open(self, text: str, *, bound_to: str, place: str) -> Scalar:
        """Return the decrypted value of ``text``.

        ``bound_to`` is the additional data that the tag authenticates; ``place`` names the value in
        errors.

        Raises:
            DecryptionError: the text is not an encrypted value, or not one of this key and place.
        """
        match = _VALUE.fullmatch(text)
        if match is None:
            raise DecryptionError(f"{place} is not encrypted")
        try:
            data, nonce, tag = (
                base64.b64decode(part, validate=True) for part in match.groups()[:3]
            )
        except ValueError:
            raise DecryptionError(f"{place} is damaged: no base64") from None
        if len(tag) != _TAG or not _NONCE[0] <= len(nonce) <= _NONCE[1]:
            raise DecryptionError(f"{place} is damaged: nonce or tag has the wrong length")
        try:
            plain = self._gcm.decrypt(nonce, data + tag, bytes_of(bound_to))
        except InvalidTag:
            raise DecryptionError(
                f"{place} was changed, or moved here from another place or document"
            ) from None
        return _typed(text_of(plain), match["type"], place)

    def seal(self, value: Scalar, *, bound_to: str) -> str:
        """Return ``value`` encrypted; empty text stays as it is, as SOPS has it."""
        plain = mac_bytes(value)
        if not plain:
            return ""
        nonce = os.urandom(_FRESH_NONCE)
        sealed = self._gcm.encrypt(nonce, plain, bytes_of(bound_to))
        parts = (sealed[:-_TAG], nonce, sealed[-_TAG:])
        data, iv, tag = (base64.b64encode(part).decode() for part in parts)
        return f"{MARKER}data:{data},iv:{iv},tag:{tag},type:{_name(value)}]"


_VALUE = re.compile(
    r"ENC\[AES256_GCM,data:([A-Za-z0-9+/=]+),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+)"
    r",type:(?P<type>[a-z]+)\]"
)
_TAG: Final = 16
_NONCE: Final = (12, 128)
"""Bytes; SOPS writes 32."""
_FRESH_NONCE: Final = 32

_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_FLOAT = re.compile(r"[-+]?(Inf|[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?)|NaN")
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


def _typed(text: str, kind: str, place: str) -> Scalar:
    match kind:
        case "str" | "bytes":
            return text
        case "comment":
            return Comment(text)
        case "int" if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
            return int(text)
        case "float" if _FLOAT.fullmatch(text) and _finite(text):
            return float(text)
        case "bool" if text in _TRUE + _FALSE:
            return text in _TRUE
        case "time" if (moment := scalars.timestamp(text)) is not None:
            return moment
        case _:
            raise DecryptionError(f"{place} does not fit its type '{kind[:20]}'")


def _name(value: Scalar) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case Timestamp():
            return "time"
        case Comment():
            return "comment"
        case _:
            return "str"


def _finite(text: str) -> bool:
    """Refuse a number that overflows; explicit infinities are valid."""
    return "I" in text or not math.isinf(float(text))
