"""The directory that replaces the artifact in a build of local files.

``--path`` is the directory to build. Manifests may refer to files beside it (``../base``), so the
build tree begins at the repository: the nearest parent directory with ``.git``. Without one,
``spec.path`` determines how deep the directory is in its repository.
"""

import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from cli import errors
from toolkit.artifact.ignore import Ignore
from toolkit.errors import PenstockError

_VERSION_CONTROL: Final = frozenset({".git", ".gitignore", ".gitmodules", ".gitattributes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The root of the tree, and the directory in it to build, relative to the root."""

    root: Path
    path: str

    @classmethod
    def find(cls, directory: Path, *, spec_path: str) -> "Workspace":
        """Find the root for a directory.

        Raises:
            UsageError: it is not a directory.
        """
        if not directory.is_dir():
            raise errors.UsageError(f"--path {directory} is not a directory")
        target = directory.resolve()
        root = _repository(target) or _above(target, spec_path)
        return cls(root=root, path=f"./{target.relative_to(root).as_posix()}")


@contextmanager
def as_artifacts(mounts: Mapping[str, Path]) -> Iterator[Mapping[str, Path]]:
    """Give the directories without the files that would not be in an artifact of them.

    The rules are those of the ``.sourceignore`` files, or else the built-in ones. A directory from
    which nothing is left out is given itself.

    Raises:
        UsageError: a ``.sourceignore`` cannot be understood, or a file cannot be read.
    """
    with ExitStack() as kept:
        yield {place: _artifact(source, kept) for place, source in mounts.items()}


def _artifact(source: Path, kept: ExitStack) -> Path:
    with _told():
        rules = Ignore()
        names = {entry.name for entry in rules.walk(source) if not entry.is_directory}
        if all(name in names for name in _files(source)):
            return source
        copied = Path(kept.enter_context(TemporaryDirectory(prefix="penstock-build-")))
        _copy(source, copied, rules)
    return copied


def _files(source: Path) -> Iterator[str]:
    """Yield the regular files that are not of version control."""
    for folder, below, names in os.walk(source):
        below[:] = [each for each in below if each != ".git"]
        for name in names:
            path = Path(folder, name)
            if name not in _VERSION_CONTROL and path.is_file() and not path.is_symlink():
                yield path.relative_to(source).as_posix()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except PenstockError as exc:
        raise errors.UsageError(str(exc)) from exc
    except OSError as exc:
        raise errors.UsageError(f"cannot read {exc.filename}: {exc.strerror}") from exc


@contextmanager
def without(workspace: Workspace, patterns: Sequence[str]) -> Iterator[Mapping[str, Path]]:
    """Give what to mount so that files are left out of the directory to build.

    ``patterns`` are gitignore rules, relative to that directory. Without any, nothing is mounted.

    Raises:
        UsageError: a pattern cannot be understood, or a file cannot be read.
    """
    if not patterns:
        yield {}
        return
    place = _place(workspace.path)
    with TemporaryDirectory(prefix="penstock-build-") as name:
        with _told():
            rules = Ignore.from_rules("\n".join(patterns), where="--ignore-paths")
            _copy(workspace.root / place, Path(name), rules)
        yield {place: Path(name)}


def _place(path: str) -> str:
    """Return a path in the tree as a mount point; the root is an empty one."""
    found = posixpath.normpath(f"/{path}").lstrip("/")
    return "" if found == "." else found


def _copy(source: Path, into: Path, rules: Ignore) -> None:
    for entry in rules.walk(source):
        target = into / entry.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.is_directory:
            target.mkdir(exist_ok=True)
        else:
            shutil.copyfile(source / entry.name, target)


def _repository(target: Path) -> Path | None:
    return next((p for p in (target, *target.parents) if (p / ".git").exists()), None)


def _above(target: Path, spec_path: str) -> Path:
    """Return the directory in which ``spec_path`` leads to ``target``, else ``target``."""
    parts = [part for part in PurePosixPath(spec_path).parts if part not in (".", "/")]
    if parts and list(target.parts[-len(parts) :]) == parts:
        return target.parents[len(parts) - 1]
    return target
