"""Build the artifacts of a generator from the directories of its sources. Blocks; runs in a worker.

``from`` of a copy operation is a file, a directory or a glob; ``to`` is a file or a directory. As
with ``cp``:

- A file is copied to ``to``, or into it if ``to`` is a directory or ends in a slash.
- A directory is copied into ``to`` under its own name. Of the root of a source, the content is
  copied.
- Files that match a glob are copied into ``to``, with their path from the first wildcard on.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from controllers.source.generating.source import SourceFiles
from controllers.source.generating.tree import REASON, Space, Tree
from controllers.source.generating.wire import BuildRequest, BuildResult, BuiltArtifact
from crds.extensions import CopyOperation, OutputArtifact
from toolkit.artifact.composition import limits, pathpattern
from toolkit.artifact.composition.globs import Glob, PatternError, Rules, segments
from toolkit.artifact.composition.pathpattern import PathPattern
from toolkit.artifact.composition.validation import REASON as INVALID
from toolkit.artifact.composition.validation import alias_of
from toolkit.errors import StalledError, TransientError


def build(request: BuildRequest, *, space: int = limits.TOTAL_BYTES) -> BuildResult:
    """Build each artifact into its own directory below ``request.into``.

    ``space`` limits the bytes of all artifacts together.

    Raises:
        StalledError: a path pattern captured an invalid name, captured one name twice, or makes too
            many artifacts (reason ValidationFailed).
        TransientError: an artifact cannot be built (reason BuildFailed).
    """
    sources = {alias: SourceFiles(alias, Path(root)) for alias, root in request.sources.items()}
    planned = _planned(request, sources)
    shared = Space(space)
    built = []
    for number, (output, labels) in enumerate(planned):
        tree = Tree(Path(request.into) / str(number), shared)
        for operation in output.copy:
            try:
                _copy(operation, sources, tree)
            except OSError as exc:
                raise _failed(f"{operation.from_}: {exc.strerror or exc}", output) from exc
            except TransientError as exc:
                raise _failed(str(exc), output) from exc
        digest, files = tree.digest()
        built.append(
            BuiltArtifact(
                name=output.name,
                directory=str(tree.root),
                digest=digest,
                files=files,
                revision=output.revision.removeprefix("@"),
                origin=output.origin_revision.removeprefix("@"),
                labels=dict(labels),
            )
        )
    return BuildResult(artifacts=built)


_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_TARBALLS: Final = (".tar.gz", ".tgz")

_Planned = tuple[OutputArtifact, Mapping[str, str]]


def _planned(request: BuildRequest, sources: Mapping[str, SourceFiles]) -> list[_Planned]:
    """Return the artifacts to build and their labels; with a pattern, one per directory."""
    if not request.path_pattern:
        return [(output, {}) for output in request.artifacts]
    planned: dict[str, tuple[_Planned, Mapping[str, str]]] = {}
    operations = 0
    for output, captured in _matched(request, sources):
        name = output.name
        try:
            labels = pathpattern.labels(captured)
        except PatternError as exc:
            raise _unusable(request, str(exc)) from exc
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            raise _unusable(request, f"'{ascii(name[:100])[1:-1]}' is not a name of an object")
        if name in planned:
            raise _unusable(
                request,
                f"{_listed(planned[name][1])} and {_listed(captured)} both make the artifact "
                f"'{name}'",
            )
        planned[name] = (output, labels), captured
        operations += len(output.copy)
        if len(planned) > limits.ARTIFACTS or operations > limits.OPERATIONS:
            raise _unusable(
                request,
                f"it makes more than {limits.ARTIFACTS} artifacts, or {limits.OPERATIONS} copy "
                "operations",
            )
    return [each for each, _ in planned.values()]


def _matched(
    request: BuildRequest, sources: Mapping[str, SourceFiles]
) -> Iterator[tuple[OutputArtifact, Mapping[str, str]]]:
    pattern = PathPattern.parse(request.path_pattern)
    seen: set[tuple[tuple[str, str], ...]] = set()
    for captured in pattern.matches(sources[pattern.alias].directories):
        # If a pattern has a *, several directories may capture the same values.
        key = tuple(sorted(captured.items()))
        if key not in seen:
            seen.add(key)
            for output in request.artifacts:
                yield pathpattern.filled(output, captured), captured


def _copy(operation: CopyOperation, sources: Mapping[str, SourceFiles], tree: Tree) -> None:
    alias, path = alias_of(operation.from_)
    source, rules = sources[alias], Rules.parse(operation.exclude)
    to = segments(alias_of(operation.to)[1])
    found = Glob.parse(path)
    if found is not None:
        _copy_matching(operation, source, found, rules, to, tree)
        return
    name = segments(path)
    if name and source.is_file("/".join(name)):
        into = operation.to.endswith("/") or tree.is_directory(to)
        if not rules.exclude(name, base=0):
            _put_file(operation, source, name, (*to, name[-1]) if into else to, tree)
        return
    _copy_directory(operation, source, name, rules, to, tree)


def _copy_matching(  # noqa: PLR0913, PLR0917 - one operation's parts
    operation: CopyOperation,
    source: SourceFiles,
    found: Glob,
    rules: Rules,
    to: tuple[str, ...],
    tree: Tree,
) -> None:
    matched = taken = 0
    for name in source.below(found.base):
        parts = tuple(name.split("/"))
        if found.matches(parts):
            matched += 1
            if not rules.exclude(parts, base=len(found.base)):
                taken += _put_matched(operation, source, parts, found, to, tree)
    if not matched:
        raise TransientError(f"no files match pattern '{operation.from_}'", reason=REASON)
    if not taken:
        why = "were excluded" if operation.strategy != "Extract" else "are not tarballs"
        raise TransientError(f"all files matching pattern '{operation.from_}' {why}", reason=REASON)


def _put_matched(  # noqa: PLR0913, PLR0917 - one operation's parts
    operation: CopyOperation,
    source: SourceFiles,
    parts: tuple[str, ...],
    found: Glob,
    to: tuple[str, ...],
    tree: Tree,
) -> bool:
    if operation.strategy == "Extract":
        if not parts[-1].endswith(_TARBALLS):
            return False
        tree.extract(source.root.joinpath(*parts), to)
        return True
    _put_file(operation, source, parts, (*to, *parts[len(found.base) :]), tree)
    return True


def _copy_directory(  # noqa: PLR0913, PLR0917 - one operation's parts
    operation: CopyOperation,
    source: SourceFiles,
    name: Sequence[str],
    rules: Rules,
    to: tuple[str, ...],
    tree: Tree,
) -> None:
    files = list(source.below(name))
    if not files and name:
        raise TransientError(f"'{operation.from_}' does not exist", reason=REASON)
    if operation.strategy == "Extract":
        raise TransientError(
            f"'{operation.from_}' is a directory, which cannot be extracted", reason=REASON
        )
    above = max(len(name) - 1, 0)
    for file in files:
        parts = tuple(file.split("/"))
        if not rules.exclude(parts, base=len(name)):
            _put_file(operation, source, parts, (*to, *parts[above:]), tree)


def _put_file(
    operation: CopyOperation,
    source: SourceFiles,
    parts: Sequence[str],
    target: tuple[str, ...],
    tree: Tree,
) -> None:
    path = source.root.joinpath(*parts)
    if operation.strategy == "Merge":
        tree.merge(path, target)
    elif operation.strategy == "Extract":
        if not parts[-1].endswith(_TARBALLS):
            raise TransientError(
                f"'{operation.from_}' is not a tarball (.tar.gz, .tgz), so it cannot be extracted",
                reason=REASON,
            )
        tree.extract(path, segments(alias_of(operation.to)[1]))
    else:
        tree.put(path, target)


def _listed(captured: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value[:60]!a}" for name, value in sorted(captured.items()))


def _unusable(request: BuildRequest, why: str) -> StalledError:
    return StalledError(f"spec.pathPattern '{request.path_pattern}': {why}", reason=INVALID)


def _failed(why: str, output: OutputArtifact) -> TransientError:
    return TransientError(f"artifact '{output.name}': {why}", reason=REASON)
