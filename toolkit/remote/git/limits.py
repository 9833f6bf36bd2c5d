"""Limits for the data that a server can make us store.

The defaults allow repositories several times larger than manifests ever are, and stop a hostile one
long before memory, disk or the deadline are exhausted.
"""

from dataclasses import dataclass
from typing import Final, Literal

from toolkit.remote.git.errors import GitError

MiB: Final = 1 << 20
GiB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one checkout, submodules included. Sizes are in bytes."""

    pack_bytes: int = 1 * GiB
    """Limit for all received packs, compressed."""
    inflated_bytes: int = 8 * GiB
    """Limit for all objects of one pack, uncompressed; only a pack with history comes near it."""
    objects: int = 300_000
    """In one pack."""
    files: int = 50_000
    """Written, and as many directories."""
    file_bytes: int = 256 * MiB
    """Limit for one file."""
    tree_bytes: int = 1 * GiB
    """Limit for all written files."""
    submodules: int = 100
    """In all, at any depth."""
    submodule_depth: int = 8


METADATA_BYTES: Final = 32 * MiB
"""Limit for one commit, tag or tree, which are held in memory."""

Bounded = Literal["files", "directories", "bytes in files", "bytes in packs", "submodules"]


class Budget:
    """The rest of the limits for one checkout with all its submodules."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._most: dict[Bounded, int] = {
            "files": limits.files,
            "directories": limits.files,
            "bytes in files": limits.tree_bytes,
            "bytes in packs": limits.pack_bytes,
            "submodules": limits.submodules,
        }
        self._left = dict(self._most)

    def spend(self, what: Bounded, amount: int = 1) -> None:
        """Use a part of the rest.

        Raises:
            GitError: the limit is exceeded.
        """
        self._left[what] -= amount
        if self._left[what] < 0:
            raise GitError(f"the repository has more {what} than the {self._most[what]} allowed")
