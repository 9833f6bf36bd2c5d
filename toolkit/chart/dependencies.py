"""What a chart in a directory still lacks of the charts that it depends on.

A dependency is there if ``charts/`` has one of its name. One on ``file://`` is taken from the same
source, and never from outside of it; all others have to be fetched by who calls. Of a Chart.lock
the versions are taken, as far as they still fit Chart.yaml. As in Helm, what a dependency depends
on in turn has to be in it.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from toolkit.chart import directory, metadata, package
from toolkit.chart.errors import DependencyBuildError
from toolkit.chart.metadata import Dependency, Metadata, MetadataError
from toolkit.chart.package import PackageError

_CHARTS: Final = "charts/"


def missing(chart: Metadata, files: Mapping[str, bytes]) -> tuple[Dependency, ...]:
    """Return the dependencies that ``charts/`` does not hold, in their order, pinned.

    Raises:
        DependencyBuildError: one that is missing names no repository.
    """
    present = Counter(_present(files))
    lacking = []
    for dependency in chart.dependencies:
        if present[dependency.name]:
            present[dependency.name] -= 1
        elif not dependency.repository:
            raise DependencyBuildError(
                f"the chart '{chart.name}' depends on '{dependency.name}', which is not in "
                "charts/ and names no repository"
            )
        else:
            lacking.append(chart.pinned(dependency))
    return tuple(lacking)


def is_local(dependency: Dependency) -> bool:
    """Tell whether a dependency lies in the same source."""
    return dependency.repository.startswith("file://")


def local(root: Path, chart: Path, dependency: Dependency) -> dict[str, bytes]:
    """Return the files of a ``file://`` dependency of the chart in the directory ``chart``.

    Raises:
        DependencyBuildError: there is no such chart within ``root``, or in another version.
    """
    parts = urlsplit(dependency.repository)
    place = f"the dependency '{dependency.name}' ('{dependency.repository}')"
    relative = (chart.relative_to(root) / parts.netloc / parts.path.lstrip("/")).as_posix()
    path = directory.inside(root, relative)
    if path is None:
        raise DependencyBuildError(f"{place} leads out of the source")
    if chart.is_relative_to(path):
        raise DependencyBuildError(f"{place} is the chart itself, or contains it")
    try:
        if path.is_dir():
            return checked(dependency, directory.load(path))
        if path.is_file():
            return checked(dependency, package.load(path))
    except PackageError as exc:
        raise DependencyBuildError(f"{place} cannot be read: {exc}") from exc
    raise DependencyBuildError(f"{place} is not in the source")


def checked(dependency: Dependency, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a dependency if they are what was asked for.

    Raises:
        DependencyBuildError: they are another chart, or another version.
    """
    try:
        found = metadata.read(files)
    except MetadataError as exc:
        raise DependencyBuildError(
            f"the dependency '{dependency.name}' is not a chart: {exc}"
        ) from exc
    if found.name != dependency.name:
        raise DependencyBuildError(
            f"instead of the dependency '{dependency.name}' there is a chart '{found.name}'"
        )
    if not metadata.fits(found.version, dependency.version):
        raise DependencyBuildError(
            f"the dependency '{dependency.name}' is there in version '{found.version}', "
            f"which is not in '{dependency.version}'"
        )
    return files


def place(files: dict[str, bytes], name: str, dependency: Mapping[str, bytes]) -> None:
    """Add a dependency's files to those of a chart, in a directory of their own."""
    where, number = f"{_CHARTS}{name}/", 1
    while any(existing.startswith(where) for existing in files):
        number += 1
        where = f"{_CHARTS}{name}-{number}/"
    for inner, content in dependency.items():
        files[f"{where}{inner}"] = content


def _present(files: Mapping[str, bytes]) -> list[str]:
    """Return the names of the charts in ``charts/``, directories and packages (Helm: LoadFiles)."""
    names = []
    for path, content in files.items():
        first, _, rest = path.removeprefix(_CHARTS).partition("/")
        if not path.startswith(_CHARTS) or first[:1] in ("_", "."):
            continue
        if rest == metadata.CHART:
            names.append(_name({metadata.CHART: content}, first))
        elif not rest and first.endswith(".tgz"):
            names.append(_name(_unpacked(content, first), first))
    return names


def _unpacked(content: bytes, name: str) -> Mapping[str, bytes]:
    try:
        return package.loads(content)
    except PackageError as exc:
        raise DependencyBuildError(f"'charts/{name}' cannot be read: {exc}") from exc


def _name(files: Mapping[str, bytes], place: str) -> str:
    try:
        return metadata.read(files).name
    except MetadataError as exc:
        raise DependencyBuildError(f"'charts/{place}' is not a chart: {exc}") from exc
