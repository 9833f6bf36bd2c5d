"""``spec.pathPattern``: directories become artifacts, and what their names hold becomes labels.

A segment of the pattern is a name, ``*``, or a capture with text around it, such as ``app-{name}``.
In the fields of an artifact ``{name}`` stands for what was captured: as it is in paths, and in
lower case in names and labels, because those must be Kubernetes names.
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
        if not at.startswith("@") or not matchers:
            raise PatternError("it is not of the form '@alias/directory'")
        names = [matcher.capture for matcher in matchers if matcher.capture]
        if len(names) != len(set(names)):
            raise PatternError("a capture occurs twice")
        return cls(alias=at[1:], matchers=matchers)

    @property
    def captures(self) -> frozenset[str]:
        """Return the names of the captures."""
        return frozenset(matcher.capture for matcher in self.matchers if matcher.capture)

    def matches(self, directories: Iterable[tuple[str, ...]]) -> Iterator[Mapping[str, str]]:
        """Yield what is captured, for every directory that matches."""
        for parts in directories:
            if len(parts) == len(self.matchers):
                captured = self._captured(parts)
                if captured is not None:
                    yield captured

    def _captured(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        found = {}
        for matcher, part in zip(self.matchers, parts, strict=True):
            value = matcher.match(part)
            if value is None:
                return None
            if matcher.capture:
                found[matcher.capture] = value
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
    """Return what was captured as labels.

    Raises:
        PatternError: a directory's name cannot be a label.
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


@dataclass(frozen=True, slots=True)
class _Matcher:
    """One segment: text before and after what may be anything."""

    before: str
    after: str = ""
    capture: str = ""
    open: bool = False

    def match(self, name: str) -> str | None:
        """Return what stands for the open part, ``""`` if there is none; ``None`` if no match."""
        if not self.open:
            return "" if name == self.before else None
        middle = name.removeprefix(self.before)
        if len(middle) + len(self.before) != len(name) or not middle.endswith(self.after):
            return None
        middle = middle.removesuffix(self.after)
        return middle or None


def _matcher(part: str) -> _Matcher:
    if part == "*":
        return _Matcher("", open=True)
    if set("*?[\\").intersection(part):
        raise PatternError(f"'{part[:80]}' holds a wildcard beside other text; use a capture")
    before, opened, rest = part.partition("{")
    capture, closed, after = rest.partition("}")
    if not opened and "}" not in part:
        return _Matcher(part)
    if not (opened and closed) or set("{}").intersection(before + capture + after):
        raise PatternError(f"'{part[:80]}' has no single capture in braces")
    if not _CAPTURE.fullmatch(capture):
        raise PatternError(f"'{{{capture[:80]}}}' is no name of a capture")
    return _Matcher(before, after, capture, open=True)


def _fill(text: str, captured: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: captured[found[1]], text)
