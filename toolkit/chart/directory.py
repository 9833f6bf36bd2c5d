"""A chart that lies in a directory, read as ``helm package`` reads it.

``.helmignore`` in the chart's root says what stays out. Its rules are Helm's, not Git's: the first
line that matches decides, a pattern without a slash is for names in every directory, and a line
with ``!`` shuts out everything else. Links are not followed, and paths do not leave their root.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolkit.artifact import glob
from toolkit.artifact.glob import Pattern, PatternError
from toolkit.chart import limits
from toolkit.chart.package import BOM, Budget, PackageError

IGNORE: Final = ".helmignore"


def load(root: Path) -> dict[str, bytes]:
    """Return the files of the chart at ``root`` that are not ignored, by their names in it.

    Raises:
        PackageError: a file is too large or they are too many, or a rule cannot be understood.
    """
    rules = Rules.parse(_ignore_file(root))
    budget = Budget()
    files = {}
    for name, path in _walk(root, rules):
        size = path.stat().st_size
        budget.take(name, size)
        files[name] = read(path, name=name)
    return files


def read(path: Path, *, name: str) -> bytes:
    """Return a file, without a mark of its byte order.

    Raises:
        PackageError: it is larger than a file may be, or has become something else.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor, no path
            data = file.read(limits.FILE_BYTES + 1)
    except OSError as exc:
        raise PackageError(f"'{name}' cannot be read: {exc.strerror}") from exc
    if len(data) > limits.FILE_BYTES:
        raise PackageError(f"'{name}' is larger than {limits.FILE_BYTES >> 20} MiB")
    return data.removeprefix(BOM)


def inside(root: Path, relative: str) -> Path | None:
    """Return what ``relative`` means below ``root``, slash or not; ``None`` if it leads out."""
    if "\0" in relative:
        return None
    path = Path(os.path.normpath(root / relative.lstrip("/")))
    if not path.is_relative_to(root) or not path.resolve().is_relative_to(root.resolve()):
        return None
    return path


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one ``.helmignore``, in its order."""

    patterns: tuple["_Rule", ...]

    @classmethod
    def parse(cls, text: str) -> "Rules":
        """Read rules, and add the one that Helm always has.

        Raises:
            PackageError: a line cannot be understood.
        """
        lines = text.removeprefix("\ufeff").split("\n")
        if len(lines) > _MOST_RULES:
            raise PackageError(f"'{IGNORE}' has more than {_MOST_RULES} lines")
        rules = [_rule(line.strip(), number) for number, line in enumerate(lines, start=1)]
        hidden = _rule("templates/.?*", 0)
        return cls(tuple(rule for rule in (*rules, hidden) if rule is not None))

    def ignore(self, parts: Sequence[str], *, is_directory: bool) -> bool:
        """Tell whether the file or directory stays out (Helm: ``ignore.Rules.Ignore``)."""
        for rule in self.patterns:
            matched = (is_directory or not rule.directories_only) and rule.matches(parts)
            if rule.negated and not matched:
                return True
            if matched and not rule.negated:
                return True
        return False


_MOST_RULES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    negated: bool
    directories_only: bool
    whole: bool
    """Whether the pattern is for whole paths and not for names."""
    pattern: Pattern

    def matches(self, parts: Sequence[str]) -> bool:
        looked_at = parts if self.whole else parts[-1:]
        return self.pattern.matches(looked_at, is_directory=True)


def _rule(line: str, number: int) -> _Rule | None:
    if not line or line.startswith("#"):
        return None
    if "**" in line:
        raise PackageError(f"line {number} of '{IGNORE}': '**' is not supported")
    negated = line.startswith("!")
    text = line.removeprefix("!")
    directories_only = text.endswith("/")
    text = text.removesuffix("/")
    try:
        # A slash in front makes it a pattern for the whole of what it is matched with.
        pattern = glob.compile_line("/" + text.removeprefix("/"))
    except PatternError as exc:
        raise PackageError(f"line {number} of '{IGNORE}' cannot be understood: {exc}") from exc
    if pattern is None:
        return None
    return _Rule(
        negated=negated, directories_only=directories_only, whole="/" in text, pattern=pattern
    )


def _ignore_file(root: Path) -> str:
    path = root / IGNORE
    if path.is_symlink() or not path.is_file():
        return ""
    return read(path, name=IGNORE).decode(errors="replace")


def _walk(root: Path, rules: Rules) -> Iterator[tuple[str, Path]]:
    """Yield regular files, sorted; what a rule shuts out is not entered."""
    pending: list[tuple[str, ...]] = [()]
    while pending:
        where = pending.pop()
        if len(where) > limits.PATH_DEPTH:
            raise PackageError(f"it has directories deeper than {limits.PATH_DEPTH}")
        with os.scandir(root.joinpath(*where)) as listing:
            found = sorted(listing, key=lambda child: child.name)
        for child in found:
            parts = (*where, child.name)
            is_directory = child.is_dir(follow_symlinks=False)
            if rules.ignore(parts, is_directory=is_directory):
                continue
            if is_directory:
                pending.append(parts)
            elif child.is_file(follow_symlinks=False):
                yield "/".join(parts), Path(child.path)
