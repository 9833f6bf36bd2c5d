"""Chart.yaml: who a chart says that it is, what it depends on, and the same with another version.

The rules are Helm's (``Metadata.Validate``). Charts of ``apiVersion: v1`` keep their dependencies
in requirements.yaml; both places are read the same way.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from toolkit.chart import document, limits, version
from toolkit.chart.document import DocumentError

CHART: Final = "Chart.yaml"
LOCK: Final = "Chart.lock"
VALUES: Final = "values.yaml"
REQUIREMENTS: Final = "requirements.yaml"
REQUIREMENTS_LOCK: Final = "requirements.lock"


class MetadataError(ValueError):
    """Chart.yaml is missing or does not describe a chart; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A chart that another one contains; ``version`` is a range, or one version from a lock."""

    name: str
    version: str = ""
    repository: str = ""
    alias: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What Chart.yaml says; ``locked`` are the versions that Chart.lock has chosen."""

    name: str
    version: str
    dependencies: tuple[Dependency, ...] = ()
    locked: tuple[Dependency, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def pinned(self, dependency: Dependency) -> Dependency:
        """Return the dependency in the version that is locked, where the lock still fits."""
        for locked in self.locked:
            same = (locked.name, locked.repository) == (dependency.name, dependency.repository)
            if same and fits(locked.version, dependency.version):
                return replace(dependency, version=locked.version)
        return dependency

    def with_version(self, text: str) -> bytes:
        """Return a Chart.yaml that says the same with another version."""
        return document.dump({**self.document, "version": text})


def read(files: Mapping[str, bytes]) -> Metadata:
    """Read what the files of a chart say about it.

    Raises:
        MetadataError: they do not say what Helm demands.
    """
    if CHART not in files:
        raise MetadataError(f"{CHART} is missing")
    fields = _mapping(files, CHART)
    if not fields.get("apiVersion"):
        raise MetadataError(f"{CHART} has no apiVersion")
    name, number = _text(fields, "name"), _text(fields, "version")
    if not name or PurePosixPath(name).name != name or not name.isprintable():
        raise MetadataError(f"{CHART} has no valid name")
    try:
        version.parse(number)
    except ValueError as exc:
        raise MetadataError(f"{CHART} has no valid version: {exc}") from exc
    if _text(fields, "type") not in ("", "application", "library"):
        raise MetadataError(f"{CHART}: the type of a chart is 'application' or 'library'")
    old = "dependencies" not in fields and REQUIREMENTS in files
    place, lock = (REQUIREMENTS, REQUIREMENTS_LOCK) if old else (CHART, LOCK)
    return Metadata(
        name=name,
        version=number,
        dependencies=_dependencies(_mapping(files, place) if old else fields, place),
        locked=_dependencies(_mapping(files, lock), lock) if lock in files else (),
        document=fields,
    )


def fits(number: str, wanted: str) -> bool:
    """Tell whether a version lies in a range; nothing else is in one that cannot be read."""
    if number == wanted:
        return True
    try:
        return version.parse(number) in version.constraint(wanted)
    except ValueError:
        return False


_ALIAS: Final = re.compile(r"[a-zA-Z0-9_-]+")


def _mapping(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    if len(files[name]) > limits.METADATA_BYTES:
        raise MetadataError(f"{name} is larger than {limits.METADATA_BYTES >> 20} MiB")
    try:
        return document.load_mapping(files[name])
    except DocumentError as exc:
        raise MetadataError(f"{name}: {exc}") from exc


def _dependencies(fields: Mapping[str, Any], place: str) -> tuple[Dependency, ...]:
    listed = fields.get("dependencies") or []
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise MetadataError(f"{place}: dependencies is no list of mappings")
    if len(listed) > limits.DEPENDENCIES:
        raise MetadataError(f"{place} has more than {limits.DEPENDENCIES} dependencies")
    found = tuple(_dependency(item, place) for item in listed)
    names = [dependency.alias or dependency.name for dependency in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None and place in (CHART, REQUIREMENTS):
        raise MetadataError(f"{place} has more than one dependency with name or alias '{twice}'")
    return found


def _dependency(item: Mapping[str, Any], place: str) -> Dependency:
    dependency = Dependency(
        name=_text(item, "name"),
        version=_text(item, "version"),
        repository=_text(item, "repository"),
        alias=_text(item, "alias"),
    )
    name = dependency.name
    if not name or PurePosixPath(name).name != name or not name.isprintable():
        raise MetadataError(f"{place} has a dependency without a valid name")
    if dependency.alias and not _ALIAS.fullmatch(dependency.alias):
        raise MetadataError(f"{place}: the alias of the dependency '{name}' is not valid")
    return dependency


def _text(fields: Mapping[str, Any], key: str) -> str:
    """Return a field as Helm reads it: a number that stands for a string becomes one."""
    value = fields.get(key)
    if value is None:
        return ""
    if isinstance(value, float):
        return document.number(value)
    if isinstance(value, list | dict):
        raise MetadataError(f"'{key}' is not a string")
    return str(value).lower() if isinstance(value, bool) else str(value)
