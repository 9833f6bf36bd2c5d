"""The cgroup of a node's pods: what the kernel does not remove with the namespaces.

Version 2 has one hierarchy, version 1 one for each controller, and some machines have both
(cgroups(7)). Empty cgroups of killed nodes stay until somebody removes their directories.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from controlplane.errors import ControlPlaneError

ROOT: Final = Path("/sys/fs/cgroup")

_CONTROLLERS: Final = "cgroup.controllers"
_SUBTREE: Final = "cgroup.subtree_control"
_EMPTY_SECONDS: Final = 10
_POLL_SECONDS: Final = 0.02


def create(name: str, *, root: Path = ROOT) -> None:
    """Make the cgroup ``name`` in every hierarchy."""
    for hierarchy in _hierarchies(root):
        if hierarchy == root:
            # Version 2: children get the controllers that their parent hands on.
            controllers = (root / _CONTROLLERS).read_text().split()
            (root / _SUBTREE).write_text(" ".join(f"+{each}" for each in controllers))
        (hierarchy / name).mkdir(exist_ok=True)


def remove(name: str, *, root: Path = ROOT) -> None:
    """Remove the cgroup ``name`` and those below it, once the last process in them is gone.

    Raises:
        ControlPlaneError: a process is still in one of them.
    """
    deadline = time.monotonic() + _EMPTY_SECONDS
    for hierarchy in _hierarchies(root):
        while not _removed(hierarchy / name):
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"processes are left in cgroup {hierarchy / name}")
            time.sleep(_POLL_SECONDS)


def _hierarchies(root: Path) -> list[Path]:
    if (root / _CONTROLLERS).is_file():
        return [root]
    # Of controllers that are mounted together, one directory has the others' names as links.
    mounted = [path for path in sorted(root.iterdir()) if path.is_dir() and not path.is_symlink()]
    return [path for path in mounted if (path / "cgroup.procs").is_file()]


def _removed(directory: Path) -> bool:
    for path, _, _ in os.walk(directory, topdown=False):
        # The kernel refuses while a process is inside (EBUSY).
        with suppress(OSError):
            Path(path).rmdir()
    return not directory.exists()
