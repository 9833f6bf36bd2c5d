"""One gitignore pattern (gitignore(5)), matched in time linear in the name.

Patterns come from repositories, and a regular expression with several stars can be made to take
for ever while it holds the interpreter lock. So a segment's stars are matched as atomic groups:
between two stars the leftmost match is as good as any, and none is tried twice.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


class PatternError(ValueError):
    """A pattern is invalid; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A compiled pattern. The caller must exclude the content of a matching directory."""

    negated: bool
    directories_only: bool
    segments: "tuple[re.Pattern[str] | None, ...]"
    """One matcher per path segment; None is ``**``, any number of segments."""

    def matches(self, parts: Sequence[str], *, is_directory: bool) -> bool:
        """Tell whether the path ``parts``, relative to where the pattern is written, matches."""
        if self.directories_only and not is_directory:
            return False
        return _match(self.segments, parts)


def compile_line(line: str) -> Pattern | None:
    """Return the pattern of one line; ``None`` for a comment and for a line without one.

    Raises:
        PatternError: a bracket is not closed, a range is empty, or it ends in a backslash.
    """
    text = _strip(line)
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    directories_only = text.endswith("/")
    names = [name for name in text.split("/") if name]
    if not names:
        return None
    anchored = "/" in text.rstrip("/")
    # Below a directory that matches everything matches, so a final ** is as good as a *.
    names[-1] = "*" if names[-1] == "**" else names[-1]
    segments = [None if name == "**" else _segment(name) for name in names]
    return Pattern(
        negated=negated,
        directories_only=directories_only,
        segments=tuple(segments) if anchored else (None, *segments),
    )


_LONGEST: Final = 1000
"""Characters of one pattern."""


def _strip(line: str) -> str:
    text = line.rstrip("\r\n")
    if len(text) > _LONGEST:
        raise PatternError(f"it is longer than {_LONGEST} characters")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    return text


def _match(segments: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Match segment by segment; on failure give the last ``**`` one more part, as globs do."""
    at = taken = 0
    retry: tuple[int, int] | None = None
    while taken < len(parts):
        if at < len(segments) and segments[at] is None:
            retry = (at, taken)
            at += 1
        elif at < len(segments) and _fits(segments[at], parts[taken]):
            at += 1
            taken += 1
        elif retry is not None:
            retry = (retry[0], retry[1] + 1)
            at, taken = retry[0] + 1, retry[1]
        else:
            return False
    return at == len(segments)


def _fits(segment: re.Pattern[str] | None, part: str) -> bool:
    return segment is not None and segment.fullmatch(part) is not None


def _segment(name: str) -> re.Pattern[str]:
    first, *rest = _pieces(name)
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    atomic = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{atomic}.*{last}", re.DOTALL)


def _pieces(name: str) -> list[str]:
    """Translate the parts between the stars; each part matches a fixed number of characters."""
    pieces = [""]
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif character == "[":
            end = name.find("]", at + (2 if name[at : at + 1] in ("!", "^") else 1))
            if end < 0:
                raise PatternError("a bracket is not closed")
            pieces[-1] += _set(name[at:end])
            at = end + 1
        elif character == "\\":
            if at == len(name):
                raise PatternError("it ends in a backslash")
            pieces[-1] += re.escape(name[at])
            at += 1
        else:
            pieces[-1] += re.escape(character)
    return pieces


def _set(body: str) -> str:
    negated = body[0] in "!^"
    characters = body[1:] if negated else body
    result = ""
    while characters:
        low, characters = characters[0], characters[1:]
        high = low
        if len(characters) > 1 and characters[0] == "-":
            high, characters = characters[1], characters[2:]
        if low > high:
            raise PatternError("a range in brackets is empty")
        result += f"{re.escape(low)}-{re.escape(high)}"
    return f"[{'^' if negated else ''}{result}]"
