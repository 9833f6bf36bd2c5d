"""How much of a repository is believed: bounds on what a server may make us store.

One place for all of them. The defaults pass repositories several times larger than manifests ever
are, and stop a hostile one long before memory, disk or the deadline do.
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
    """Of all packs received, compressed."""
    inflated_bytes: int = 8 * GiB
    """Of all objects of one pack, uncompressed; only a pack with history comes near it."""
    objects: int = 300_000
    """In one pack."""
    files: int = 50_000
    """Written, and as many directories."""
    file_bytes: int = 256 * MiB
    """Of one file."""
    tree_bytes: int = 1 * GiB
    """Of all files written."""
    submodules: int = 100
    """In all, at any depth."""
    submodule_depth: int = 8


METADATA_BYTES: Final = 32 * MiB
"""Of one commit, tag or tree: these are held in memory whole."""

Bounded = Literal["files", "directories", "bytes in files", "bytes in packs", "submodules"]


class Budget:
    """What is left of the limits over one checkout with all its submodules."""

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
        """Take from what is left.

        Raises:
            GitError: it is not enough.

        """
        self._left[what] -= amount
        if self._left[what] < 0:
            raise GitError(f"the repository has more {what} than the {self._most[what]} allowed")
