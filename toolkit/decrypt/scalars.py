"""Resolve plain YAML scalars by the rules of Go's yaml.v3, which SOPS uses for encryption.

They are neither YAML 1.1 nor 1.2: ``yes`` is a string, ``017`` and ``0o17`` are fifteen, ``1_000``
is a thousand, ``2001-12-14`` is a time. A value that resolves differently than at its encryption
breaks the MAC, so the rules must be exactly the same (yaml.v3 ``resolve.go``).
"""

import base64
import binascii
import datetime as dt
import math
import re
from typing import Final

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.tree import Scalar, Timestamp, text_of


def resolve(text: str) -> Scalar:
    """Return the value of an untagged plain scalar.

    Raises:
        DecryptionError: an integer that SOPS cannot hold (2**63 up to 2**64).
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        return _float(text, text) if _FRACTION.fullmatch(text) else text
    if text[0] not in "+-0123456789":
        return text
    if (moment := timestamp(text)) is not None:
        return moment
    return _number(text)


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar whose tag is written in the file.

    Raises:
        DecryptionError: the tag is unknown, or the text is nothing of that kind.
    """
    if tag in ("str", "merge"):
        return text
    if tag == "binary":
        return _binary(text)
    value = resolve(text)
    if tag == "float" and type(value) is int:
        return float(value)
    if type(value) is not _TYPES.get(tag):
        raise DecryptionError(f"a scalar does not fit its tag !!{tag[:32]}, or the tag is unknown")
    return value


def timestamp(text: str) -> Timestamp | None:
    """Return ``text`` as the moment that yaml.v3 sees in it, or ``None``."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    part = match.groupdict()
    year, month, day = int(part["year"]), int(part["month"]), int(part["day"])
    hour, minute, second = (int(part[name] or 0) for name in ("hour", "minute", "second"))
    try:
        dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError:
        return None
    if (zone := _zone(part["zone"])) is None:
        return None
    nanoseconds = (part["fraction"] or "")[1:10].rstrip("0")
    fraction = f".{nanoseconds}" if nanoseconds else ""
    return Timestamp(
        f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"
    )


_WORDS: Final[dict[str, Scalar]] = (
    dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
    | dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan)
    | dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf)
    | dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf)
)
_TYPES: Final[dict[str, type]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "null": type(None),
    "timestamp": Timestamp,
}
_FRACTION = re.compile(r"\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0[oO]?(?P<o>[0-7]+)"
    r"|(?P<d>0|[1-9][0-9]*))"
)
_BASES: Final = {"x": 16, "b": 2, "o": 8, "d": 10}
_TIMESTAMP = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?:(?:[Tt](?=.*(?:Z|[-+][0-9]{2}:[0-9]{2})$)|\ (?!.*(?:Z|[-+][0-9]{2}:[0-9]{2})$))"
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})"
    r"(?P<fraction>[.,][0-9]+)?(?P<zone>Z|[-+][0-9]{2}:[0-9]{2})?)?",
    re.VERBOSE,
)
_LONGEST_NUMBER = 400
"""Characters. Go would read on; Python's integers are quadratic, and no MAC needs it."""


def _number(text: str) -> Scalar:
    if len(text) > _LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match is not None:
        base = match.lastgroup or "d"
        value = int(match[base], _BASES[base]) * (-1 if match["sign"] == "-" else 1)
        if -(2**63) <= value < 2**63:
            return value
        if not match["sign"] and value < 2**64:
            raise DecryptionError("a number does not fit into 64 bits with a sign")
    if _FLOAT.fullmatch(digits):
        return _float(digits, text)
    return text


def _float(digits: str, otherwise: str) -> float | str:
    number = float(digits)
    return otherwise if math.isinf(number) else number


def _zone(text: str | None) -> str | None:
    """Normalise an offset; ``None`` if it is out of range."""
    if text is None or text == "Z" or text[1:] == "00:00":
        return "Z"
    return text if int(text[1:3]) <= 24 and int(text[4:6]) < 60 else None


def _binary(text: str) -> str:
    try:
        return text_of(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError) as exc:
        raise DecryptionError("a !!binary scalar is not base64") from exc
