"""Choose the tag of an image by a policy: a filter, and an order. Pure.

The rules are those of Flux's image-reflector-controller (``internal/policy``): a tag that matches
the filter is compared by the result of ``extract``. If tags compare as equal, the choice does not
depend on the order in which a registry lists them. Patterns are RE2, so a hostile pattern takes
time linear in the tags.
"""

import heapq
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from crds.image import ImagePolicyChoice, TagFilter
from toolkit import regexp
from toolkit.errors import StalledError, WaitingError
from toolkit.remote import semver

INVALID: Final = "InvalidPolicy"
SECONDS: Final = 20.0
"""CPU time that the patterns of one field may take for all tags."""


class NoTagError(WaitingError):
    """No tag is left to choose from, or one that is left is not a number."""

    default_reason = "Failure"


def choose(choice: ImagePolicyChoice, given: TagFilter | None, tags: Iterable[str]) -> str:
    """Return the tag that a policy chooses.

    Raises:
        StalledError: the policy cannot be read.
        NoTagError: no tag can be chosen.
    """
    return ranked(choice, given, tags, most=1)[0]


def ranked(
    choice: ImagePolicyChoice, given: TagFilter | None, tags: Iterable[str], *, most: int
) -> list[str]:
    """Return the tags that a policy would choose one after the other, if each were not there.

    There is at least one. Raises as ``choose``.
    """
    rank = _order(choice)
    kept = _filtered(given, tags)
    if not kept:
        raise NoTagError("version list argument cannot be empty")
    return [kept[version] for version in rank(kept.keys(), most)]


def excluded(patterns: Iterable[str], tags: Iterable[str]) -> list[str]:
    """Return the tags that match none of the patterns, in descending order.

    Raises:
        StalledError: a pattern is invalid, there are too many, or they take too long.
    """
    given = tuple(patterns)
    if len(given) > regexp.MOST:
        raise StalledError(
            f"spec.exclusionList: more than {regexp.MOST} patterns: join some with '|'",
            reason=INVALID,
        )
    compiled = [_compiled(pattern, "spec.exclusionList") for pattern in given]
    kept = {
        tag
        for tag in in_time(tags, "spec.exclusionList")
        if not any(each.search(tag) for each in compiled)
    }
    return sorted(kept, reverse=True)


def missing_groups(pattern: str, template: str) -> list[str]:
    """Return the groups that a template names and the pattern does not have.

    Raises:
        ValueError: the pattern is not valid.
    """
    compiled = regexp.compiled(pattern)
    named = [match["braced"] or match["plain"] for match in _GROUP.finditer(template)]
    return [name for name in dict.fromkeys(filter(None, named)) if not _has_group(compiled, name)]


def _has_group(pattern: "re.Pattern[str]", name: str) -> bool:
    number = _number_of(name)
    return name in pattern.groupindex if number is None else number <= pattern.groups


_Rank = Callable[[Iterable[str], int], list[str]]
"""Returns the first so many, in order."""


def _order(choice: ImagePolicyChoice) -> _Rank:
    if choice.semver is not None:
        return _by_version(choice.semver.range)
    if choice.alphabetical is not None:
        return _first_or_last(str, descending=choice.alphabetical.order == "desc")
    if choice.numerical is not None:
        return _first_or_last(_number, descending=choice.numerical.order == "desc")
    raise StalledError(
        "invalid policy: spec.policy sets neither semver, alphabetical nor numerical: set one",
        reason=INVALID,
    )


def _by_version(text: str) -> _Rank:
    try:
        within = semver.Range.parse(text)
    except ValueError as exc:
        raise StalledError(f"invalid policy: spec.policy.semver: {exc}", reason=INVALID) from exc

    def rank(versions: Iterable[str], most: int) -> list[str]:
        found = semver.ranked(versions, within, most=most)
        if not found:
            raise NoTagError("unable to determine latest version from provided list")
        return found

    return rank


def _first_or_last(
    key: Callable[[str], str] | Callable[[str], "_Numbered"], *, descending: bool
) -> _Rank:
    def rank(versions: Iterable[str], most: int) -> list[str]:
        pick = heapq.nsmallest if descending else heapq.nlargest
        return pick(most, versions, key=lambda version: (key(version), version))

    return rank


_Numbered = tuple[float, Decimal]


def _number(text: str) -> _Numbered:
    """Return the value for comparing numbers, which is exact even if a float is not."""
    try:
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise NoTagError(
            f"failed to parse invalid numeric value '{text[:_SHOWN]}': let spec.filterTags leave "
            "only tags with a number, and extract that"
        )
    return value, Decimal(text) if _is_number(text) else Decimal()


def _filtered(given: TagFilter | None, tags: Iterable[str]) -> Mapping[str, str]:
    """Return the tags that pass the filter, by the text to compare.

    Of several tags with the same text, the last in text order counts, so that the order in which a
    registry lists them does not matter.
    """
    if given is None or not given.pattern:
        return {tag: tag for tag in tags}
    pattern = _compiled(given.pattern, "spec.filterTags.pattern")
    expand = _template(given.extract) if given.extract else None
    kept = {}
    for tag in in_time(sorted(tags), "spec.filterTags.pattern"):
        match = pattern.search(tag)
        if match is not None:
            kept[expand(match) if expand else tag] = tag
    return kept


def in_time(tags: Iterable[str], field: str) -> Iterator[str]:
    """Yield the tags, until this thread has computed for too long.

    Time is linear in the searched text, but patterns may be long, and there may be many tags.

    Raises:
        StalledError: it has.
    """
    end = time.thread_time() + SECONDS
    for tag in tags:
        if time.thread_time() > end:
            raise StalledError(
                f"{field}: to match all tags takes more than {SECONDS:g} s: write simpler patterns",
                reason=INVALID,
            )
        yield tag


def _template(text: str) -> Callable[["re.Match[str]"], str]:
    """Return a function that expands a template as Go does (``regexp.Regexp.Expand``).

    A named group that does not exist expands to nothing, and ``$$`` to a dollar.
    """

    def expand(match: "re.Match[str]") -> str:
        groups = match.groupdict()

        def value(found: "re.Match[str]") -> str:
            if found["dollar"]:
                return "$"
            name = found["braced"] or found["plain"]
            number = _number_of(name)
            if number is None:
                return groups.get(name) or ""
            return (match.group(number) or "") if number <= len(match.groups()) else ""

        return _GROUP.sub(value, text)

    return expand


def _compiled(pattern: str, field: str) -> "re.Pattern[str]":
    try:
        found: re.Pattern[str] = regexp.compiled(pattern)
    except ValueError as exc:
        raise StalledError(f"{field}: {exc}", reason=INVALID) from exc
    return found


def _number_of(name: str) -> int | None:
    """Return the number of a group; a text longer than any such number is a name, as in Go."""
    return int(name) if _is_number(name) and len(name) <= _DIGITS else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


_GROUP: Final = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<plain>\w+))")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SHOWN: Final = 128
_DIGITS: Final = 8
