"""What the kustomization.yaml files of a repository make of its other files.

A file that a kustomization.yaml names as a patch, as values or as the content of a generator holds
no object, even if it looks like one. Nor is a file applied that lies beside a kustomization.yaml
and that none names as a resource.
"""

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolkit.chart import document

NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
LARGEST: Final = 4 << 20
_RESOURCES: Final = ("resources", "bases")
_DEEPEST: Final = 8
"""Levels of a field of kustomization.yaml in which files are named."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Files that some kustomization.yaml names, and the folders that have one."""

    resources: frozenset[str]
    others: frozenset[str]
    folders: frozenset[str]

    def holds_objects(self, file: str) -> bool:
        """Tell whether the documents of a file may be applied as they are."""
        if file in self.resources:
            return True
        return file not in self.others and posixpath.dirname(file) not in self.folders


def read(root: Path) -> Roles:
    """Return the roles of the files below a directory."""
    found = {each: content for each in _folders(root) if (content := load(root, each))}
    resources, others = set[str](), set[str]()
    for folder, content in found.items():
        for field, value in content.items():
            into = resources if field in _RESOURCES else others
            into.update(_named(folder, value))
    return Roles(frozenset(resources), frozenset(others), frozenset(found))


def load(root: Path, folder: str) -> dict[str, Any] | None:
    """Return the content of the kustomization.yaml of a folder; None without a readable one."""
    for name in NAMES:
        path = root / folder / name
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
                continue
            content = document.load(path.read_bytes())
        except (OSError, document.DocumentError, RecursionError):
            continue
        if isinstance(content, dict):
            return content
    return None


def _folders(root: Path) -> Iterator[str]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(each for each in below if each != ".git")
        if not set(NAMES).isdisjoint(names):
            relative = Path(folder).relative_to(root).as_posix()
            yield "" if relative == "." else relative


def _named(folder: str, value: object, depth: int = 0) -> Iterator[str]:
    """Yield every text of a field as a path in the repository, also behind ``key=``."""
    if isinstance(value, str) and "\n" not in value:
        for text in {value, value.rpartition("=")[2]}:
            yield posixpath.normpath(posixpath.join("/", folder, text)).lstrip("/")
    elif depth < _DEEPEST and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _named(folder, each, depth + 1)
