"""``spec.pathPattern``: make an artifact per directory, and labels from the directory's name.

A segment of the pattern is ``*``, or text with any number of captures, such as ``app-{name}``. All
other characters are literal, as in Flux (source-watcher, artifactgenerator_pathpattern.go), so
``**`` matches only a directory of that name. In the fields of an artifact ``{name}`` is replaced by
the captured text: unchanged in paths, and in lower case in names and labels, which must be
Kubernetes names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from crds.extensions import CopyOperation, OutputArtifact
from toolkit.artifact.composition.globs import PatternError, segments


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """A parsed pattern: the source's alias, and a matcher for each segment."""

    alias: str
    matchers: "tuple[_Matcher, ...]"

    @classmethod
    def parse(cls, text: str) -> "PathPattern":
        """Read ``@alias/dir/{capture}``.

        Raises:
            PatternError: it cannot be understood.
        """
        at, _, path = text.partition("/")
        matchers = tuple(_matcher(part) for part in segments(path))
        if not at.startswith("@"):
            raise PatternError("it is not of the form '@alias/directory'")
        names = [name for matcher in matchers for name in matcher.captures if name]
        if len(names) != len(set(names)):
            raise PatternError("a capture occurs twice")
        return cls(alias=at[1:], matchers=matchers)

    @property
    def captures(self) -> frozenset[str]:
        """Return the names of the captures."""
        return frozenset(name for each in self.matchers for name in each.captures if name)

    @property
    def idle(self) -> str:
        """Return why hardly any directory will match, or nothing."""
        if not self.matchers:
            return "it names no directory below the root, so no artifact is made"
        for matcher in self.matchers:
            if _WILDCARDS.intersection("".join(matcher.texts)):
                shown = matcher.source[:80]
                return f"'{shown}' is not a wildcard here: only a directory of this name matches"
        return ""

    def matches(self, directories: Iterable[tuple[str, ...]]) -> Iterator[Mapping[str, str]]:
        """Yield the captures of every directory that matches."""
        for parts in directories:
            if len(parts) == len(self.matchers):
                captured = self._captured(parts)
                if captured is not None:
                    yield captured

    def _captured(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        found: dict[str, str] = {}
        for matcher, part in zip(self.matchers, parts, strict=True):
            values = matcher.match(part)
            if values is None:
                return None
            found |= zip(matcher.captures, values, strict=True)
        found.pop("", None)
        return found


def require_known(output: OutputArtifact, captures: frozenset[str]) -> None:
    """Require that an artifact's fields use no capture that the pattern lacks.

    Raises:
        PatternError: one is not defined.
    """
    texts = [output.name, *(text for copy in output.copy for text in (copy.from_, copy.to))]
    for text in texts:
        for name in _PLACEHOLDER.findall(text):
            if name not in captures:
                raise PatternError(f"the capture '{{{name}}}' is not defined by it")


def filled(output: OutputArtifact, captured: Mapping[str, str]) -> OutputArtifact:
    """Return the artifact for one directory."""
    lower = {name: value.lower() for name, value in captured.items()}
    return OutputArtifact(
        name=_fill(output.name, lower),
        revision=output.revision,
        origin_revision=output.origin_revision,
        copy=[
            CopyOperation(
                from_=_fill(copy.from_, captured),
                to=_fill(copy.to, captured),
                exclude=copy.exclude,
                strategy=copy.strategy,
            )
            for copy in output.copy
        ],
    )


def labels(captured: Mapping[str, str]) -> dict[str, str]:
    """Return the captures as labels.

    Raises:
        PatternError: the name of a directory is not a valid label.
    """
    found = {name: value.lower() for name, value in captured.items()}
    for name, value in found.items():
        if not _LABEL.fullmatch(value):
            raise PatternError(
                f"'{ascii(value[:80])[1:-1]}', which '{{{name}}}' captured, cannot be a label: use "
                "at most 63 letters, digits, '-', '_' and '.'"
            )
    return found


_CAPTURE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,61}[A-Za-z0-9]|[A-Za-z]")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_]*)\}")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?")


_PARTS: Final = re.compile(r"\{([^{}]*)\}")
_WILDCARDS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class _Matcher:
    """One segment: the texts around its captures, one more than there are captures."""

    source: str
    texts: tuple[str, ...]
    captures: tuple[str, ...] = ()

    def match(self, name: str) -> tuple[str, ...] | None:
        """Return the text of each capture, None if the name does not match.

        An earlier capture takes as much as possible, as in a regular expression: each text between
        two captures is searched from the right.
        """
        first, last = self.texts[0], self.texts[-1]
        if not self.captures:
            return () if name == first else None
        start, end = len(first), len(name) - len(last)
        if not (name.startswith(first) and name.endswith(last)):
            return None
        values = []
        for text in reversed(self.texts[1:-1]):
            at = name.rfind(text, start, end - 1) if end > start else -1
            if at < 0:
                return None
            values.append(name[at + len(text) : end])
            end = at
        if end <= start:
            return None
        return (name[start:end], *reversed(values))


def _matcher(part: str) -> _Matcher:
    if part == "*":
        return _Matcher(part, ("", ""), ("",))
    *pairs, last = _PARTS.split(part)
    texts, captures = (*pairs[::2], last), tuple(pairs[1::2])
    if any(set("{}").intersection(text) for text in texts):
        raise PatternError(f"'{part[:80]}' has a brace without its other one")
    for capture in captures:
        if not _CAPTURE.fullmatch(capture):
            raise PatternError(
                f"'{{{capture[:80]}}}' is not the name of a capture: write letters, digits and "
                "'_', a letter first"
            )
    return _Matcher(part, texts, captures)


def _fill(text: str, captured: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: captured[found[1]], text)
