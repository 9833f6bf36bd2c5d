"""Semantic versions and the ranges that users write: ``>=1.2 <2``, ``^1``, ``~1.4``, ``1.x || 3``.

No library on PyPI agrees with Go's Masterminds/semver, which every Flux user's ranges are written
for, so this follows its rules: a pre-release matches only in a group that names one, a partial
version widens the operator before it, and ``^0.y.z`` stays within ``0.y``.

Versions are read strictly (three numbers, an optional ``v``), as Flux reads tags; ranges loosely.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Final

_PRERELEASE = r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
_BUILD = r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
_NUMBER = r"(0|[1-9][0-9]*)"
_VERSION: Final = re.compile(rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}{_PRERELEASE}{_BUILD}")

_PART = r"([0-9]+|[xX*]+)"
_PARTIAL = rf"v?{_PART}(?:\.{_PART})?(?:\.{_PART})?{_PRERELEASE}{_BUILD}"
_OPERATOR = r"(=>|>=|<=|=<|~>|!=|[=<>~^]|)"
_COMPARISON: Final = re.compile(rf"\s*{_OPERATOR}\s*{_PARTIAL}\s*(?:,|(?=\s|$))")
_HYPHEN: Final = re.compile(
    r"\s*(v?[0-9xX*][0-9A-Za-z.+*-]*)\s+-\s+(v?[0-9xX*][0-9A-Za-z.+*-]*)\s*"
)

MAX_LENGTH: Final = 256
"""Characters of a version or range; longer ones are refused before they reach a pattern."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A semantic version. Build metadata takes no part in comparison (semver.org, item 10)."""

    major: int
    minor: int
    patch: int
    prerelease: str = ""
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse ``1.2.3``, ``v1.2.3-rc.1`` or ``1.2.3+build``.

        Raises:
            ValueError: the text has none of these forms.
        """
        match = _VERSION.fullmatch(text) if len(text) <= MAX_LENGTH else None
        if match is None or not _valid_prerelease(match[4]):
            raise ValueError(f"{text[:MAX_LENGTH]!r} is not a semantic version")
        return cls(int(match[1]), int(match[2]), int(match[3]), match[4] or "", match[5] or "")

    @property
    def _order(self) -> tuple[object, ...]:
        # A release is above its pre-releases; numbers are below words (semver.org, item 11).
        parts = self.prerelease.split(".") if self.prerelease else []
        keys = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
        return self.major, self.minor, self.patch, not keys, keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order == other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __lt__(self, other: "Version") -> bool:
        return self._order < other._order


@dataclass(frozen=True, slots=True)
class Range:
    """A set of versions: groups of comparisons, one group of which must hold entirely."""

    text: str
    groups: tuple[tuple["_Comparison", ...], ...] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "Range":
        """Read a range.

        Raises:
            ValueError: it does not parse.

        """
        if len(text) > MAX_LENGTH:
            raise ValueError(f"a range of more than {MAX_LENGTH} characters is not accepted")
        return cls(text, tuple(_group(part, text) for part in text.split("||")))

    def __contains__(self, version: Version) -> bool:
        return any(
            all(comparison.holds(version) for comparison in group)
            for group in self.groups
            if not version.prerelease or any(comparison.bound.prerelease for comparison in group)
        )


def highest(tags: Iterable[str], within: Range) -> str | None:
    """Return the tag with the highest version in the range; other tags are passed over."""
    return next(iter(ranked(tags, within, most=1)), None)


def ranked(tags: Iterable[str], within: Range, *, most: int) -> list[str]:
    """Return the tags with the highest versions in the range, the highest first.

    If tags differ only in build metadata, the last in text order comes first, so that the result
    does not depend on the order in which a server lists them.
    """
    found = heapq.nlargest(most, _versions(tags, within))
    return [tag for _, tag in found]


def _versions(tags: Iterable[str], within: Range) -> Iterator[tuple[Version, str]]:
    for tag in tags:
        try:
            version = Version.parse(tag)
        except ValueError:
            continue
        if version in within:
            yield version, tag


@dataclass(frozen=True, slots=True)
class _Comparison:
    """An operator and its bound; ``given`` is how many of the bound's three numbers were given."""

    operator: str
    bound: Version
    given: int

    def holds(self, version: Version) -> bool:
        """Tell whether the version satisfies this comparison."""
        return _OPERATORS[self.operator](version, self.bound, self.given)


def _group(part: str, whole: str) -> tuple[_Comparison, ...]:
    text = _HYPHEN.sub(r" >=\1, <=\2 ", part)
    found = []
    position = 0
    while position < len(text.rstrip()):
        match = _COMPARISON.match(text, position)
        if match is None:
            raise ValueError(f"{whole!r} is not a range of versions")
        found.append(_comparison(match, whole))
        position = match.end()
    if not found or text.rstrip().endswith(","):
        raise ValueError(f"{whole!r} is not a range of versions")
    return tuple(found)


def _comparison(match: re.Match[str], whole: str) -> _Comparison:
    operator, *parts, prerelease, build = match.groups()
    if not _valid_prerelease(prerelease):
        raise ValueError(f"{whole!r} is not a range of versions")
    given = next((i for i, part in enumerate(parts) if part is None or not part.isdigit()), 3)
    major, minor, patch = [int(part) for part in parts[:given]] + [0] * (3 - given)
    bound = Version(major, minor, patch, prerelease or "", build or "")
    return _Comparison(operator, bound, given)


def _valid_prerelease(text: str | None) -> bool:
    parts = (text or "").split(".")
    return not any(part.isdigit() and len(part) > 1 and part[0] == "0" for part in parts)


def _equal(version: Version, bound: Version, given: int) -> bool:
    return _tilde(version, bound, given) if given < 3 else version == bound


def _not_equal(version: Version, bound: Version, given: int) -> bool:
    if given in (0, 3):
        return version != bound  # `!=*` too: Masterminds reads it as `!=0.0.0`.
    if _numbers(version)[:given] != _numbers(bound)[:given]:
        return True
    return given == 2 and version.prerelease != bound.prerelease


def _greater(version: Version, bound: Version, given: int) -> bool:
    if given in (1, 2):
        # `>11` starts at 12 and `>11.1` at 11.2: numbers that the bound leaves out match any.
        return _numbers(version)[:given] > _numbers(bound)[:given]
    return version > bound


def _less(version: Version, bound: Version, given: int) -> bool:  # noqa: ARG001  # one signature for all
    return version < bound


def _at_least(version: Version, bound: Version, given: int) -> bool:  # noqa: ARG001  # one signature for all
    return version >= bound


def _at_most(version: Version, bound: Version, given: int) -> bool:
    if given == 3:
        return version <= bound
    return _numbers(version)[: given or 2] <= _numbers(bound)[: given or 2]


def _tilde(version: Version, bound: Version, given: int) -> bool:
    if version < bound:
        return False
    if given in (0, 3) and _numbers(bound) == (0, 0, 0):
        return True
    kept = 1 if given == 1 else 2
    return _numbers(version)[:kept] == _numbers(bound)[:kept]


def _caret(version: Version, bound: Version, given: int) -> bool:
    if version < bound:
        return False
    if bound.major > 0 or given == 1:
        return version.major == bound.major
    if bound.minor > 0 or given == 2:
        return _numbers(version)[:2] == _numbers(bound)[:2]
    return _numbers(version) == _numbers(bound)


def _numbers(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch


_OPERATORS: Final[dict[str, Callable[[Version, Version, int], bool]]] = {
    "": _equal,
    "=": _equal,
    "!=": _not_equal,
    ">": _greater,
    "<": _less,
    ">=": _at_least,
    "=>": _at_least,
    "<=": _at_most,
    "=<": _at_most,
    "~": _tilde,
    "~>": _tilde,
    "^": _caret,
}
