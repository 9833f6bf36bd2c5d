"""The version, wherever it is written, and the section of the changelog that belongs to it.

``pyproject.toml`` is the source; generated files take it from there. The other files name it for
readers that cannot ask: an image tag, labels. Texts come in and go out; nothing is read or written.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from release.errors import ReleaseError

PROJECT: Final = "pyproject.toml"
CHANGELOG: Final = "CHANGELOG.md"
PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        PROJECT: r'(?<=\nversion = ")[^"]+(?="\n)',
        "deploy/base/labels/all/kustomization.yaml": r"(?<=(?:newTag|ersion): v)\d[^\s]*(?=\n)",
        "deploy/Containerfile": r'(?<=image\.version="v)[^"]+(?=")',
    }
)
"""By the file, what the version replaces in it. What is generated follows from these."""

_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_UNRELEASED: Final = "## Unreleased\n"


def require(version: str) -> None:
    """Require a version that all of Python, Helm and registries write in the same way.

    Raises:
        ReleaseError: it is another.
    """
    if _VERSION.fullmatch(version) is None:
        raise ReleaseError(f"{version!r} is not a version: write MAJOR.MINOR.PATCH, such as 1.2.0")


def written(path: str, text: str, version: str) -> str:
    """Return the text of a file of ``PLACES`` with ``version``.

    Raises:
        ReleaseError: the file names no version.
    """
    changed, count = re.subn(PLACES[path], version, text)
    if not count:
        raise ReleaseError(f"{path} names no version where release/versioning.py expects it")
    return changed


def read(text: str) -> str:
    """Return the version that ``pyproject.toml`` has.

    Raises:
        ReleaseError: it has none.
    """
    found = re.search(PLACES[PROJECT], text)
    if found is None:
        raise ReleaseError(f"{PROJECT} has no version")
    return found[0]


def is_cut(changelog: str, version: str) -> bool:
    """Tell whether the changelog has a section of ``version``."""
    return f"\n## {version} - " in changelog


def cut(changelog: str, version: str, date: str) -> str:
    """Return the changelog whose unreleased changes are those of ``version``.

    Raises:
        ReleaseError: nothing is unreleased.
    """
    head, found, rest = changelog.partition(_UNRELEASED)
    changes, _, _ = rest.partition("\n## ")
    if not found or not changes.strip():
        raise ReleaseError(
            f"{CHANGELOG} has nothing under `## Unreleased`: write down what users notice"
        )
    return f"{head}{_UNRELEASED}\n## {version} - {date}\n{rest}"
