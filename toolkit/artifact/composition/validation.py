"""The errors of a spec that can be found without reading a source, before anything is fetched."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crds.extensions import ArtifactGeneratorSpec, CopyOperation, OutputArtifact
from toolkit.artifact.composition import globs, limits, pathpattern
from toolkit.artifact.composition.globs import Glob, PatternError, Rules, segments
from toolkit.artifact.composition.pathpattern import PathPattern
from toolkit.errors import StalledError

REASON: Final = "ValidationFailed"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in one field; ``value`` is its text if that helps the user."""

    field: str
    why: str
    value: str = ""

    def __str__(self) -> str:
        shown = f" '{self.value[:200]}'" if self.value else ""
        return f"{self.field}{shown}: {self.why}"


def require_valid(spec: ArtifactGeneratorSpec) -> None:
    """Require that the spec is valid for any content of its sources.

    Raises:
        StalledError: a field is invalid (reason ValidationFailed); the message names the field.
    """
    for problem in problems(spec):
        raise StalledError(str(problem), reason=REASON)


def problems(spec: ArtifactGeneratorSpec) -> Iterator[Problem]:
    """Yield everything that keeps a spec from being carried out."""
    aliases = {source.alias for source in spec.sources}
    yield from _repeated("alias", "spec.sources", [source.alias for source in spec.sources])
    if sum(len(output.copy) for output in spec.artifacts) > limits.OPERATIONS:
        yield Problem("spec.artifacts", f"more than {limits.OPERATIONS} copy operations")
        return
    if _size(spec) > limits.PATTERNS:
        yield Problem("spec.artifacts", f"its globs stand for more than {limits.PATTERNS} patterns")
        return
    captures, wrong = _captures(spec, aliases)
    if wrong is not None:
        yield wrong
    yield from _repeated("name", "spec.artifacts", [output.name for output in spec.artifacts])
    for number, output in enumerate(spec.artifacts):
        yield from _output(output, f"spec.artifacts[{number}]", aliases, captures)


def alias_of(text: str) -> tuple[str, str]:
    """Split ``@alias/path``."""
    alias, _, path = text.removeprefix("@").partition("/")
    return alias, path


def _repeated(what: str, field: str, values: list[str]) -> Iterator[Problem]:
    seen = set()
    for number, value in enumerate(values):
        if value in seen:
            yield Problem(f"{field}[{number}]", f"the {what} '{value}' occurs twice")
        seen.add(value)


def _size(spec: ArtifactGeneratorSpec) -> int:
    """Return the number of patterns to compile."""
    return sum(
        globs.count(text)
        for output in spec.artifacts
        for operation in output.copy
        for text in (operation.from_, *operation.exclude)
    )


def _captures(
    spec: ArtifactGeneratorSpec, aliases: set[str]
) -> tuple[frozenset[str], Problem | None]:
    """Return the captures of ``spec.pathPattern``, and a problem if it is invalid."""
    text = spec.path_pattern
    if not text:
        return frozenset(), None
    pattern = None
    try:
        pattern = PathPattern.parse(text)
        for output in spec.artifacts:
            pathpattern.require_known(output, pattern.captures)
    except PatternError as exc:
        captures = pattern.captures if pattern else frozenset()
        return captures, Problem("spec.pathPattern", str(exc), text)
    if pattern.alias not in aliases:
        return pattern.captures, _unknown("spec.pathPattern", pattern.alias)
    return pattern.captures, None


def _output(
    output: OutputArtifact, field: str, aliases: set[str], captures: frozenset[str]
) -> Iterator[Problem]:
    for name, text in (("revision", output.revision), ("originRevision", output.origin_revision)):
        alias = text.removeprefix("@")
        if alias and alias not in aliases:
            yield _unknown(f"{field}.{name}", alias)
    for number, operation in enumerate(_example(output, captures).copy):
        where = f"{field}.copy[{number}]"
        alias, path = alias_of(operation.from_)
        if alias not in aliases:
            yield _unknown(f"{where}.from", alias)
        for name, text, problem in _patterns(operation, path):
            yield Problem(f"{where}.{name}", str(problem), text)


def _patterns(operation: CopyOperation, path: str) -> Iterator[tuple[str, str, PatternError]]:
    """Yield field, value and error of each invalid pattern."""
    try:
        Glob.parse(path)
    except PatternError as exc:
        yield "from", operation.from_, exc
    try:
        segments(alias_of(operation.to)[1])
    except PatternError as exc:
        yield "to", operation.to, exc
    try:
        Rules.parse(operation.exclude)
    except PatternError as exc:
        yield "exclude", ", ".join(operation.exclude), exc


def _example(output: OutputArtifact, captures: frozenset[str]) -> OutputArtifact:
    """Return the artifact as for a directory whose parts are all called x."""
    try:
        pathpattern.require_known(output, captures)
    except PatternError:  # reported with the pattern
        return output
    return pathpattern.filled(output, dict.fromkeys(captures, "x"))


def _unknown(field: str, alias: str) -> Problem:
    return Problem(field, f"there is no source with the alias '{alias}'")
