"""Which files of a tree go into its artifact: gitignore rules, as Flux applies them.

Version-control files never go in. Images, archives and CI settings stay out too, unless the tree
has a ``.sourceignore`` with rules, in whichever directory, or the spec has ``ignore`` rules; then
those decide alone. The last rule that matches a path, or a directory above it, wins: first
version control, then ``.sourceignore`` files from the root down, then the spec. Unlike in Git, a
file below an excluded directory may be included again (source-controller ``sourceignore``).
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from toolkit.artifact import beneath, glob
from toolkit.artifact.glob import Pattern
from toolkit.errors import PenstockError, StalledError, TransientError

FILE: Final = ".sourceignore"
REASON: Final = "SourceIgnoreError"

MAX_RULES: Final = 2_000
"""Rules in force for one tree; each is tried on each path."""

MAX_FILE: Final = 256 << 10
"""Bytes of one ``.sourceignore``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One regular file or directory that stays."""

    name: str
    """Path relative to the tree, with forward slashes."""
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Ignore:
    """The rules of one source object; the tree's own are read while walking."""

    rules: tuple[Pattern, ...] = ()

    @classmethod
    def from_rules(cls, text: str | None, *, where: str = "spec.ignore") -> "Ignore":
        """Compile rules; ``where`` names their place in errors.

        Raises:
            StalledError: a rule is invalid (reason SourceIgnoreError).
        """
        return cls(tuple(_compile((text or "").splitlines(), where, StalledError)))

    def walk(self, tree: Path) -> Iterator[Entry]:
        """Yield the entries that are not ignored, sorted, a directory before its content.

        Symbolic links and special files are skipped. Blocks on the file system.

        Raises:
            OSError: a directory cannot be read, or was replaced by a link.
            TransientError: a ``.sourceignore`` is invalid (reason SourceIgnoreError).
        """
        files = _read_files(tree)
        own = bool(self.rules) or any(files.values())
        builtin = _VERSION_CONTROL if own else _VERSION_CONTROL + _NOT_SOURCE
        top = _rank(self.rules, _SPEC) + _rank(builtin, _BUILTIN)
        pending = [_children(tree, (), top, _UNDECIDED, files)]
        while pending:
            child = next(pending[-1], None)
            if child is None:
                pending.pop()
                continue
            entry, parts, rules, verdict = child
            if not verdict.excluded:
                yield entry
            if entry.is_directory and parts[-1] != ".git":
                pending.append(_children(tree, parts, rules, verdict, files))


_VERSION_CONTROL: Final = tuple(
    pattern
    for line in (".git", ".gitignore", ".gitmodules", ".gitattributes")
    if (pattern := glob.compile_line(line)) is not None
)
_NOT_SOURCE: Final = tuple(
    pattern
    for line in (
        *("*.jpg", "*.jpeg", "*.gif", "*.png", "*.wmv", "*.flv", "*.tar.gz", "*.zip"),
        *(".github/", ".circleci/", ".travis.yml", ".gitlab-ci.yml", "appveyor.yml", ".drone.yml"),
        *("cloudbuild.yaml", "codeship-services.yml", "codeship-steps.yml"),
        *(".goreleaser.yml", ".goreleaser.yaml", ".sops.yml", ".sops.yaml", ".flux.yaml"),
    )
    if (pattern := glob.compile_line(line)) is not None
)


_BUILTIN: Final = -1
_SPEC: Final = 1 << 30
"""Ranks of rules that are not in files; the rank of a rule in a file is its depth."""


@dataclass(frozen=True, slots=True)
class _Rule:
    rank: tuple[int, int]
    """Depth of the file and number of the line; the rule with the higher rank wins."""
    pattern: Pattern

    @property
    def depth(self) -> int:
        """Return the number of path segments above the rule."""
        return max(self.rank[0], 0) if self.rank[0] != _SPEC else 0


@dataclass(frozen=True, slots=True)
class _Verdict:
    rank: tuple[int, int]
    excluded: bool


_UNDECIDED: Final = _Verdict((_BUILTIN, -1), excluded=False)
_Child: TypeAlias = tuple[Entry, tuple[str, ...], list[_Rule], _Verdict]


def _children(
    tree: Path,
    parts: tuple[str, ...],
    rules: list[_Rule],
    verdict: _Verdict,
    files: Mapping[tuple[str, ...], Sequence[Pattern]],
) -> Iterator[_Child]:
    """Yield the children of ``parts``, each with the rules that apply there and the verdict."""
    own = _rank(files.get(parts, ()), len(parts))
    rules = sorted([*rules, *own], key=lambda rule: rule.rank, reverse=True) if own else rules
    for name, is_directory in beneath.listed(tree, parts):
        where = (*parts, name)
        entry = Entry(name="/".join(where), is_directory=is_directory)
        yield entry, where, rules, _decide(rules, where, verdict, is_directory=is_directory)


def _decide(
    rules: Sequence[_Rule], parts: Sequence[str], inherited: _Verdict, *, is_directory: bool
) -> _Verdict:
    """Return the verdict of the highest rule that matches here or above; ``rules`` descend."""
    for rule in rules:
        if rule.rank <= inherited.rank:
            break
        if rule.pattern.matches(parts[rule.depth :], is_directory=is_directory):
            return _Verdict(rule.rank, excluded=not rule.pattern.negated)
    return inherited


def _rank(patterns: Iterable[Pattern], place: int) -> list[_Rule]:
    """Return the rules of one place, the last line first."""
    return [_Rule((place, line), pattern) for line, pattern in enumerate(patterns)][::-1]


def _read_files(tree: Path) -> dict[tuple[str, ...], tuple[Pattern, ...]]:
    """Return the rules of every ``.sourceignore``, by its directory."""
    found: dict[tuple[str, ...], tuple[Pattern, ...]] = {}
    pending: list[tuple[str, ...]] = [()]
    while pending:
        parts = pending.pop()
        for name, is_directory in beneath.listed(tree, parts):
            if is_directory:
                if name != ".git":
                    pending.append((*parts, name))
            elif name == FILE:
                found[parts] = _read_file(tree, (*parts, name))
    if sum(map(len, found.values())) > MAX_RULES:
        raise TransientError(f"the tree has more than {MAX_RULES} ignore rules", reason=REASON)
    return found


def _read_file(tree: Path, parts: tuple[str, ...]) -> tuple[Pattern, ...]:
    name = "/".join(parts)
    descriptor = beneath.opened(tree, parts, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123  # a descriptor, no path
        text = file.read(MAX_FILE + 1)
    if len(text) > MAX_FILE:
        raise TransientError(f"'{name}' is larger than {MAX_FILE >> 10} KiB", reason=REASON)
    return tuple(_compile(text.removeprefix("\ufeff").split("\n"), name, TransientError))


def _compile(lines: Sequence[str], place: str, error: type[PenstockError]) -> Iterator[Pattern]:
    if len(lines) > MAX_RULES:
        raise error(f"'{place}' has more than {MAX_RULES} lines", reason=REASON)
    for number, line in enumerate(lines, start=1):
        try:
            pattern = glob.compile_line(line)
        except glob.PatternError as exc:
            message = f"the rule in line {number} of '{place}' cannot be understood: {exc}"
            raise error(message, reason=REASON) from exc
        if pattern is not None:
            yield pattern
