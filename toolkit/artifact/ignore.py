"""Which files stay out of an artifact, in .gitignore syntax.

As Flux (source-controller ``sourceignore``): version-control files never enter; without any rules
of the user, media files, archives and CI configuration stay out too; ``spec.ignore`` replaces those
defaults, and ``.sourceignore`` files add to either, each for its own directory and below.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pathspec import GitIgnoreSpec

from toolkit.errors import StalledError

SOURCE_IGNORE: Final = ".sourceignore"
_MAX_RULES_BYTES: Final = 1 << 20
_VCS: Final = (".git/", ".gitignore", ".gitmodules", ".gitattributes")
_EXTENSIONS: Final = ("*.jpg", "*.jpeg", "*.gif", "*.png", "*.wmv", "*.flv", "*.tar.gz", "*.zip")
_CI: Final = (
    ".github/",
    ".circleci/",
    ".travis.yml",
    ".gitlab-ci.yml",
    "appveyor.yml",
    ".drone.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
)
_EXTRA: Final = ("**/.goreleaser.yml", "**/.goreleaser.yaml", "**/.sops.yaml", "**/.flux.yaml")


@dataclass(frozen=True, slots=True)
class Ignore:
    """The rules of one source, before its ``.sourceignore`` files are known."""

    rules: tuple[str, ...]

    @classmethod
    def from_rules(cls, spec_ignore: str | None) -> "Ignore":
        """Take ``spec.ignore``, or the defaults where it is not set.

        Raises:
            StalledError: a pattern is not valid.
        """
        if spec_ignore is None:
            return cls((*_EXTENSIONS, *_CI, *_EXTRA))
        lines = tuple(spec_ignore.splitlines())
        _compile(lines, where="spec.ignore")
        return cls(lines)

    def matcher(self, tree: Path) -> "Matcher":
        """Return the matcher for the files of ``tree``."""
        return Matcher(tree, self.rules)


class Matcher:
    """Decides file by file, going down: a directory that is ignored is never looked into."""

    def __init__(self, tree: Path, rules: Sequence[str]) -> None:
        self._tree = tree
        self._specs: dict[str, GitIgnoreSpec] = {}
        self._vcs = _compile(_VCS, where="the built-in rules")
        self._root_rules = tuple(rules)

    def enter(self, directory: str) -> None:
        """Read the ``.sourceignore`` of a directory, given relative to the tree (``""`` is it)."""
        rules = list(self._root_rules) if not directory else []
        file = self._tree / directory / SOURCE_IGNORE
        if file.is_file() and not file.is_symlink():
            where = str(PurePosixPath(directory) / SOURCE_IGNORE)
            rules += _read(file, where=where).splitlines()
        if rules:
            self._specs[directory] = _compile(rules, where=directory or SOURCE_IGNORE)

    def ignored(self, path: str, *, directory: bool) -> bool:
        """Tell whether the file or directory at ``path`` stays out.

        The rules of the nearest directory that has an opinion win, as in Git.
        """
        name = f"{path}/" if directory else path
        if self._vcs.match_file(name):
            return True
        for base in _bases(path):
            spec = self._specs.get(base)
            if spec is None:
                continue
            verdict = spec.check_file(name[len(base) :].lstrip("/")).include
            if verdict is not None:
                return verdict
        return False


def _bases(path: str) -> Iterable[str]:
    """Yield the directories above ``path``, nearest first, ``""`` last."""
    for parent in PurePosixPath(path).parents:
        text = str(parent)
        yield "" if text == "." else text


def _read(file: Path, *, where: str) -> str:
    if file.stat().st_size > _MAX_RULES_BYTES:
        raise StalledError(f"{where} is larger than 1 MiB", reason="SourceIgnoreError")
    return file.read_text(encoding="utf-8", errors="replace")


def _compile(rules: Sequence[str], *, where: str) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(rules)
    except ValueError as error:
        raise StalledError(f"{where}: {error}", reason="SourceIgnoreError") from error
