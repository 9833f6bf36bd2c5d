"""Versions of charts: read loosely as Helm does, marked with metadata, as tags of a registry.

Ranges and their order are ``toolkit.remote.semver``'s. What is here is Helm's own: ``1.2`` is a
version too (Masterminds ``NewVersion``), and a registry's tag has ``_`` for ``+``, which no tag
may hold.
"""

import re
from dataclasses import replace
from typing import Final

from toolkit.remote.semver import MAX_LENGTH, Range, Version

_LOOSE: Final = re.compile(
    r"v?([0-9]{1,18})(?:\.([0-9]{1,18}))?(?:\.([0-9]{1,18}))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_PADDED: Final = re.compile(r"0[0-9]+")
_METADATA: Final = re.compile(r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*")


def parse(text: str) -> Version:
    """Parse the version of a chart; missing parts are 0.

    Raises:
        ValueError: the text is not a version.
    """
    match = _LOOSE.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{text[:MAX_LENGTH]!r} is not a semantic version")
    if any(_PADDED.fullmatch(part) for part in (match[4] or "").split(".")):
        raise ValueError(f"{text!r} has a number with a leading zero in its pre-release")
    major, minor, patch = (int(part or 0) for part in match.groups()[:3])
    return Version(major, minor, patch, match[4] or "", match[5] or "")


def constraint(text: str) -> Range:
    """Read a range; an empty text matches any release.

    Raises:
        ValueError: the text is not a range.
    """
    return Range.parse(text.strip() or "*")


def with_metadata(text: str, metadata: str) -> str:
    """Return a version with other build metadata.

    Raises:
        ValueError: the version or the metadata are invalid.
    """
    if not _METADATA.fullmatch(metadata):
        raise ValueError(f"{metadata[:MAX_LENGTH]!r} cannot be metadata of a version")
    return shown(replace(parse(text), build=metadata))


def shown(version: Version) -> str:
    """Return a version in full: ``1.2.3-rc.1+build``."""
    numbers = f"{version.major}.{version.minor}.{version.patch}"
    prerelease = f"-{version.prerelease}" if version.prerelease else ""
    return numbers + prerelease + (f"+{version.build}" if version.build else "")


def to_tag(text: str) -> str:
    """Return the tag under which a registry has this version (HIP-0006)."""
    return text.replace("+", "_")


def from_tag(tag: str) -> str:
    """Return the version of a tag."""
    return tag.replace("_", "+")
