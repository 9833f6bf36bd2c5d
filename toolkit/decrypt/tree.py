"""A SOPS document in memory: ordered, typed as Go types it, independent of the file format.

The MAC runs over the leaves in file order and in Go's spelling of them, so order, types and the
spelling of numbers are kept exactly. Text may hold bytes that are not UTF-8; they travel as
surrogate escapes.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from toolkit.decrypt.errors import DecryptionError

MAX_DEPTH: Final = 100
"""Levels of nesting; Kubernetes objects need about twenty."""

MAX_NODES: Final = 100_000
"""Keys, values, containers and comments in one document."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of the file. It has no place in the MAC."""

    text: str


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A point in time as ``time.Time.MarshalText`` spells it (RFC 3339, no trailing zeros)."""

    text: str


Scalar: TypeAlias = str | int | float | bool | Timestamp | Comment | None
Value: TypeAlias = "Branch | list[Value] | Scalar"


@dataclass(slots=True)
class Branch:
    """A mapping in file order. A ``Comment`` instead of a key is between the entries."""

    items: list[tuple[str | Comment, Value]]

    def entries(self) -> Iterator[tuple[str, Value]]:
        """Yield keys and values without the comments."""
        for key, value in self.items:
            if isinstance(key, str):
                yield key, value

    def get(self, name: str) -> Value:
        """Return the value of ``name``, or ``None``."""
        return next((value for key, value in self.entries() if key == name), None)


Path: TypeAlias = tuple[str, ...]
"""The keys above a value."""


def mapped(
    value: Value,
    path: Path,
    *,
    branch: Callable[[Branch, Path], Branch],
    leaf: Callable[[Scalar, Path], Scalar],
) -> Value:
    """Return a value with what ``branch`` and ``leaf`` make of its parts, in file order.

    Items of a list have the path of the list, and null stays null (``sops.walkValue``).
    """
    match value:
        case Branch():
            return branch(value, path)
        case list():
            return [mapped(item, path, branch=branch, leaf=leaf) for item in value]
        case None:
            return None
        case _:
            return leaf(value, path)


def text_of(raw: bytes) -> str:
    """Decode file bytes; bytes that are not UTF-8 are escaped, and encoded back unchanged."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Undo ``text_of``."""
    return text.encode("utf-8", "surrogateescape")


def lines(text: str) -> Iterator[str]:
    """Yield the lines of ``text`` without splitting a hostile one into millions at once."""
    return (match[0] for match in _LINE.finditer(text))


_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def mac_bytes(value: Scalar) -> bytes:
    """Return the bytes of a leaf for the MAC; booleans are title case (``sops.ToBytes``)."""
    match value:
        case bool():
            return b"True" if value else b"False"
        case int():
            return b"%d" % value
        case float():
            return decimal(value).encode()
        case Timestamp() | Comment():
            return bytes_of(value.text)
        case str():
            return bytes_of(value)
        case None:
            return b""


def decimal(number: float) -> str:
    """Spell a float as Go's ``FormatFloat(f, 'f', -1, 64)``: shortest digits, no exponent."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    text = format(Decimal(repr(number)), "f")
    return text.removesuffix(".0")


def plain_text(value: Scalar) -> str:
    """Return the text of a leaf for formats that have only strings (dotenv, ini)."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            text = decimal(value)
            return text if "." in text or not text[-1].isdigit() else f"{text}.0"
        case None:
            return ""
        case _:
            return mac_bytes(value).decode("utf-8", "surrogateescape")


def only(documents: list[Branch]) -> Branch:
    """Return the document of a format that has no streams of them.

    Raises:
        DecryptionError: there are several, from YAML.
    """
    if len(documents) != 1:
        raise DecryptionError("a file of this format cannot hold several documents")
    return documents[0]


def require_branch(value: Value, what: str) -> Branch:
    """Return ``value`` if it is a mapping.

    Raises:
        DecryptionError: it is something else.
    """
    if not isinstance(value, Branch):
        raise DecryptionError(f"{what} is not a mapping")
    return value
