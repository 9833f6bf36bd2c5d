"""The files of one source, listed once for all operations that read it."""

import bisect
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from toolkit.artifact.composition import limits
from toolkit.errors import TransientError

REASON = "BuildFailed"


class SourceFiles:
    """The regular files of a directory, sorted; links and special files are ignored."""

    def __init__(self, alias: str, root: Path) -> None:
        self.alias = alias
        self.root = root

    @cached_property
    def files(self) -> list[str]:
        """Return the relative paths of all files, sorted."""
        return self._listed[0]

    @cached_property
    def directories(self) -> list[tuple[str, ...]]:
        """Return the segments of all directories below the root, sorted."""
        return self._listed[1]

    def below(self, base: Sequence[str]) -> Iterator[str]:
        """Yield the files below a directory."""
        prefix = "".join(f"{part}/" for part in base)
        start = bisect.bisect_left(self.files, prefix)
        for name in self.files[start:]:
            if not name.startswith(prefix):
                return
            yield name

    def is_file(self, name: str) -> bool:
        """Tell whether ``name`` is a regular file."""
        at = bisect.bisect_left(self.files, name)
        return at < len(self.files) and self.files[at] == name

    @cached_property
    def _listed(self) -> tuple[list[str], list[tuple[str, ...]]]:
        files: list[str] = []
        directories: list[tuple[str, ...]] = []
        pending: list[tuple[str, ...]] = [()]
        while pending:
            parts = pending.pop()
            with os.scandir(self.root.joinpath(*parts)) as listing:
                for child in listing:
                    if child.is_dir(follow_symlinks=False):
                        directories.append((*parts, child.name))
                        pending.append(directories[-1])
                    elif child.is_file(follow_symlinks=False):
                        files.append("/".join((*parts, child.name)))
            if len(files) + len(directories) > limits.SOURCE_ENTRIES:
                raise TransientError(
                    f"source '{self.alias}' has more than {limits.SOURCE_ENTRIES} files and "
                    "directories",
                    reason=REASON,
                )
        return sorted(files), sorted(directories)
