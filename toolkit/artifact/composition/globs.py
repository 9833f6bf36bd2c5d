"""Globs of copy operations: ``*``, ``?``, ``[a-z]``, ``{a,b}`` within a name, ``**`` across names.

``from`` patterns are anchored at the root of their source. ``exclude`` patterns follow .gitignore:
a pattern without a slash matches at any depth, and a directory that matches excludes its content.
Matching takes time linear in the name, for any pattern (``toolkit.artifact.glob``).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolkit.artifact import glob
from toolkit.artifact.composition import limits
from toolkit.artifact.glob import Pattern, PatternError

__all__ = ["Glob", "PatternError", "Rules", "segments"]


def segments(path: str) -> tuple[str, ...]:
    """Return the segments of a path below some root.

    Raises:
        PatternError: it leads out, or holds what no file name can hold.
    """
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise PatternError("it points outside its root")
    if "\0" in path or any(len(part.encode(errors="surrogateescape")) > 255 for part in parts):
        raise PatternError("it holds a name that no file can have")
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Glob:
    """A pattern for files; ``base`` is the part before the first wildcard."""

    base: tuple[str, ...]
    patterns: tuple[Pattern, ...]

    @classmethod
    def parse(cls, text: str) -> "Glob | None":
        """Return the glob, or ``None`` for a path without wildcards.

        Raises:
            PatternError: it cannot be understood.
        """
        parts = segments(text)
        wild = next((at for at, part in enumerate(parts) if _META.intersection(part)), None)
        if wild is None:
            return None
        return cls(
            base=parts[:wild],
            patterns=tuple(_compiled(each) for each in _alternatives("/".join(parts))),
        )

    def matches(self, parts: Sequence[str]) -> bool:
        """Tell whether the file with this path matches."""
        return any(pattern.matches(parts, is_directory=False) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class Rules:
    """The patterns to exclude."""

    patterns: tuple[Pattern, ...]

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "Rules":
        """Compile the patterns.

        Raises:
            PatternError: one cannot be understood; the message quotes it.
        """
        return cls(tuple(_rule(each) for text in texts for each in _alternatives(text)))

    def exclude(self, parts: Sequence[str], *, base: int) -> bool:
        """Tell whether a file is left out; a pattern may also be relative to its glob's base."""
        return bool(self.patterns) and (
            self._excluded(parts) or (base > 0 and self._excluded(parts[base:]))
        )

    def _excluded(self, parts: Sequence[str]) -> bool:
        return any(
            pattern.matches(parts[:length], is_directory=length < len(parts))
            for length in range(1, len(parts) + 1)
            for pattern in self.patterns
        )


def count(text: str) -> int:
    """Return the number of patterns to which a text expands, without expanding it."""
    return math.prod(inside.count(",") + 1 for inside in _BRACES.findall(text)[:_MOST_BRACES])


_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_MOST_BRACES: Final = 64
_META: Final = frozenset("*?[{\\")


def _compiled(text: str) -> Pattern:
    # A final ** matches every file below, at any depth, but no directories.
    deep = text == "**" or text.endswith("/**")
    pattern = glob.compile_line(f"/{text}/*" if deep else f"/{text}")
    if pattern is None:
        raise PatternError("it is empty")
    return pattern


def _rule(text: str) -> Pattern:
    pattern = None if text.startswith("!") else glob.compile_line(text)
    if pattern is None:
        raise PatternError(f"'{text[:100]}' excludes nothing")
    return pattern


def _alternatives(text: str) -> list[str]:
    """Expand braces: ``*.{yml,yaml}`` becomes two patterns. Braces cannot be nested."""
    done, rest = [""], text
    while rest:
        literal, brace, rest = rest.partition("{")
        done = [each + literal for each in done]
        if not brace:
            break
        inside, closed, rest = rest.partition("}")
        if not closed or "{" in inside:
            raise PatternError("a brace is not closed")
        done = [each + option for each in done for option in inside.split(",")]
        if len(done) > limits.ALTERNATIVES:
            raise PatternError(f"its braces stand for more than {limits.ALTERNATIVES} patterns")
    return done
