"""Which directory stands in for the artifact when a build runs on local files.

``--path`` is the directory to build. Manifests may refer to files beside it (``../base``), so the
tree to build in begins at the repository: the nearest directory upwards that holds ``.git``.
Without one, ``spec.path`` tells how deep in its repository the directory lies.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cli import errors


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


def _repository(target: Path) -> Path | None:
    return next((p for p in (target, *target.parents) if (p / ".git").exists()), None)


def _above(target: Path, spec_path: str) -> Path:
    """Return the directory below which ``spec_path`` leads to ``target``, else ``target``."""
    parts = [part for part in PurePosixPath(spec_path).parts if part not in (".", "/")]
    if parts and list(target.parts[-len(parts) :]) == parts:
        return target.parents[len(parts) - 1]
    return target
