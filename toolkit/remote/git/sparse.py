"""``spec.sparseCheckout``: which directories of a tree are wanted.

The webhooks check these, so nothing here knows how a tree is read.
"""

import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from toolkit.remote.git.errors import GitError, GitSpecError

MAX_PATH: Final = 4000
"""Characters of a path in a repository."""


class Sparse:
    """Which part of a tree is wanted: some directories with all below them, or everything."""

    def __init__(self, directories: Sequence[str] = ()) -> None:
        if any(len(path) > MAX_PATH for path in directories):
            # To note all directories above takes time and memory by the square of the length.
            raise GitSpecError(
                f"a sparse checkout directory has more than {MAX_PATH} characters, which no file "
                "has in its path"
            )
        cleaned = [posixpath.normpath(path.strip("/") or ".") for path in directories]
        outside = [path for path in cleaned if path.split("/")[0] == ".."]
        if outside:
            raise GitSpecError(f"sparse checkout directory '{outside[0]}' is not in the repository")
        everything = not cleaned or "." in cleaned
        self._wanted = frozenset() if everything else frozenset(map(os.fsencode, cleaned))
        self._above = frozenset(parent for path in self._wanted for parent in _parents(path))
        self._seen: set[bytes] = set()

    def directory(self, path: bytes) -> bool:
        """Tell whether to look into a directory."""
        if path in self._wanted:
            self._seen.add(path)
        return self.file(path + b"/") or path in self._above

    def file(self, path: bytes) -> bool:
        """Tell whether a file is wanted."""
        return not self._wanted or any(parent in self._wanted for parent in _parents(path))

    def check(self) -> None:
        """Raise ``GitError`` if a directory that is wanted was not met."""
        for path in sorted(self._wanted - self._seen):
            raise GitError(
                f"sparse checkout directory '{os.fsdecode(path)}' is not in the repository"
            )


def _parents(path: bytes) -> Iterator[bytes]:
    end = path.rfind(b"/")
    while end > 0:
        yield path[:end]
        end = path.rfind(b"/", 0, end)
