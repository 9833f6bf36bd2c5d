"""The manifests of our kinds in a directory, as they are written there.

Files are untrusted: their number and size are bounded, links are not followed, and YAML is read by
``toolkit.chart.document``, whose values are those of Go's parser. Only files that name an API group
of Flux or of Penstock are parsed. One that is not YAML, such as the template of a chart, is noted.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cli import errors
from cli.check import roles, subjects
from cli.check.subjects import Place, Subject
from toolkit.chart import document
from toolkit.objects import gvk_of

MOST_FILES: Final = 100_000
LARGEST: Final = 4 << 20
"""Limit of a file in bytes; API servers accept less."""
_ENDINGS: Final = (".yaml", ".yml", ".json")
_GROUPS: Final = (b"fluxcd.io/", b"policy.penstock.dev/")


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a directory: objects, unreadable files, and other kinds of Flux."""

    subjects: list[Subject] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def read(directory: Path) -> Found:
    """Read all manifests below a directory.

    Raises:
        UsageError: it is not a directory, or holds too many files.
    """
    if not directory.is_dir():
        raise errors.UsageError(f"{directory} is not a directory")
    found = Found()
    for path in _paths(directory):
        name = path.relative_to(directory).as_posix()
        try:
            _take(found, name, _documents(path))
        except (OSError, document.DocumentError, RecursionError) as exc:
            found.unread.append(f"{name}: {exc}")
    return found


def namespace(directory: Path, name: str) -> str:
    """Return the ``namespace`` of the nearest kustomization above a file; empty if none has one.

    A build would most likely set it, so it is used if there is no build.
    """
    for folder in Path(name).parents:
        content = roles.load(directory, folder.as_posix()) or {}
        if isinstance(content.get("namespace"), str):
            return str(content["namespace"])
    return ""


def _paths(directory: Path) -> Iterator[Path]:
    count = 0
    for folder, below, names in os.walk(directory):
        below[:] = sorted(each for each in below if each != ".git")
        for name in sorted(names):
            path = Path(folder, name)
            if not name.endswith(_ENDINGS) or path.is_symlink() or not path.is_file():
                continue
            count += 1
            if count > MOST_FILES:
                raise errors.UsageError(
                    f"{directory} holds more than {MOST_FILES} manifests; check its parts"
                )
            yield path


def _documents(path: Path) -> list[tuple[int, Any]]:
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if not any(group in content for group in _GROUPS):
        return []
    if len(content) > LARGEST:
        raise document.DocumentError(f"it is larger than {LARGEST} bytes")
    return document.load_all(content)


def _take(found: Found, name: str, documents: list[tuple[int, Any]]) -> None:
    for number, (line, content) in enumerate(documents, 1):
        for obj in _objects(content):
            place = Place(file=name, line=line, document=number)
            if subjects.ours(obj):
                found.subjects.append(Subject(obj=obj, place=place))
            elif gvk_of(obj).group.endswith(".toolkit.fluxcd.io") and obj.get("metadata"):
                found.others[gvk_of(obj).kind] += 1


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a document, which may be a list of them."""
    if not isinstance(content, dict):
        return
    items = content.get("items") if content.get("kind") == "List" else None
    for each in items if isinstance(items, list) else [content]:
        if isinstance(each, dict):
            yield each
