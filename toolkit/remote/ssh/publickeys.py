"""Lines with SSH public keys: the common part of ``authorized_keys``, ``known_hosts`` and others.

A key is a type and a base64 blob that repeats the type (RFC 4253, section 6.6); the text before it
depends on the format. Lines end only at a newline, and words at blanks outside double quotes, as in
OpenSSH. Python's own splitting has more separators, with which a comment could hide a key.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

REVOKED: Final = "@revoked"
AUTHORITY: Final = "@cert-authority"

MAX_LINES: Final = 16_384
"""Limit of lines in one file, without comments and empty lines: no Secret has room for more keys.
"""

_BLANKS: Final = " \t\r"
_LENGTH: Final = 4
_ZEROS: Final = "AAAA"
"""The beginning of every key in base64: the length of its type in four bytes, below 256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key in SSH's wire format; whether its type counts is the reader's decision."""

    kind: str
    blob: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that holds a key: the words before it, quotes included, and the comment behind it."""

    before: tuple[str, ...]
    key: PublicKey
    comment: str


def lines(content: bytes) -> Sequence[tuple[int, str]]:
    """Return the lines that are neither empty nor comments, with their numbers from 1.

    Raises:
        ValueError: there are more than ``MAX_LINES``; raised before the first is returned.

    """
    found = []
    for number, raw in enumerate(content.decode("utf-8-sig", "replace").split("\n"), start=1):
        text = raw.strip(_BLANKS)
        if text and not text.startswith("#"):
            found.append((number, text))
    if len(found) > MAX_LINES:
        raise ValueError(f"has {len(found)} lines, and at most {MAX_LINES} are read")
    return found


def parse(text: str, *, before: int) -> Line:
    """Read a line with at most so many words before the key.

    Raises:
        ValueError: there is no key at any of these places.

    """
    words: list[str] = []
    rest = text
    for _ in range(before + 1):
        word, rest = _word(rest)
        encoded, _, comment = rest.replace("\t", " ").partition(" ")
        blob = _blob(word, encoded)
        if blob is not None:
            key = PublicKey(kind=word, blob=blob)
            return Line(before=tuple(words), key=key, comment=comment.strip(_BLANKS))
        words.append(word)
    raise ValueError("holds no SSH public key")


def split_quoted(text: str, separator: str) -> list[str]:
    """Split at a separator outside double quotes.

    Raises:
        ValueError: a quote is not closed.
    """
    parts, rest = [], text
    while True:
        end = _end(rest, separator)
        parts.append(rest[:end])
        if end == len(rest):
            return parts
        rest = rest[end + 1 :]


def in_list(name: str, patterns: str) -> bool:
    """Tell whether a pattern list names it (ssh_config(5), PATTERNS): a negated match excludes."""
    found = False
    for pattern in patterns.split(","):
        if _matches(name, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _word(text: str) -> tuple[str, str]:
    """Return the first word, with its quotes, and the rest of the text."""
    end = _end(text, _BLANKS)
    return text[:end], text[end:].lstrip(_BLANKS)


def _end(text: str, separators: str) -> int:
    quoted, escaped = False, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\" and text[position + 1 : position + 2] == '"':
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in separators:
            return position
    if quoted:
        raise ValueError("has a quote that is not closed")
    return len(text)


def _blob(kind: str, encoded: str) -> bytes | None:
    if not encoded.startswith(_ZEROS):
        return None
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    name = kind.encode()
    stated = len(name).to_bytes(_LENGTH) + name
    return blob if name and blob.startswith(stated) and len(blob) > len(stated) else None


def _matches(name: str, pattern: str) -> bool:
    """Match ``*`` and ``?`` in time that grows with the product of both lengths at most."""
    at, place = 0, 0
    star, resume = -1, 0
    while at < len(name):
        if place < len(pattern) and pattern[place] == "*":
            star, resume = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", name[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resume += 1
            at, place = resume, star + 1
        else:
            return False
    return not pattern[place:].strip("*")
