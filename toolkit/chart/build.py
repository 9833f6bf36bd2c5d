"""Look at a chart, and package it with another version, merged values, and its dependencies.

A package that nothing is to be done to stays as it is, byte for byte. Everything here blocks and
holds a chart in memory: for a worker.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from toolkit.chart import dependencies, directory, limits, metadata, package, values, version
from toolkit.chart.errors import (
    ChartPackageError,
    ChartReferenceError,
    DependencyBuildError,
    MetadataPatchError,
    ValuesFilesError,
)
from toolkit.chart.metadata import Dependency, Metadata, MetadataError
from toolkit.chart.package import PackageError
from toolkit.chart.wire import Built, Inspected, InspectRequest, PackageRequest


def inspect(request: InspectRequest) -> Inspected:
    """Return which chart there is.

    Raises:
        ChartReferenceError: there is none, or the path leads out.
        ChartPackageError: it cannot be read.
        DependencyBuildError: a dependency can be had from nowhere.
    """
    path = _located(Path(request.root), request.path)
    files, chart = _loaded(path, request.path)
    is_directory = path.is_dir()
    lacking = dependencies.missing(chart, files) if is_directory else ()
    return Inspected(
        name=chart.name,
        version=chart.version,
        is_directory=is_directory,
        missing=tuple(item for item in lacking if not dependencies.is_local(item)),
    )


def build(request: PackageRequest) -> Built:
    """Write the package that the request describes.

    Raises:
        ChartReferenceError: there is no chart, or the path leads out.
        MetadataPatchError: the version cannot be given metadata.
        ValuesFilesError: a values file is missing, leads out, or is no YAML mapping.
        DependencyBuildError: a dependency is not what the chart asks for.
        ChartPackageError: the chart cannot be read, or the package is too large.
    """
    root, out = Path(request.root), Path(request.out)
    path = _located(root, request.path)
    files, chart = _loaded(path, request.path)
    number = _version(chart, request.metadata)
    chosen = values.chosen(request.values_files)
    if path.is_file() and not chosen and not request.metadata:
        shutil.copyfile(path, out)
        return Built(name=chart.name, version=chart.version, original_version=chart.version)
    used: tuple[str, ...] = ()
    if chosen:
        source = files if request.values_in_chart else root
        files[metadata.VALUES], used = _merged(request, chosen, source)
    if number != chart.version:
        files[metadata.CHART] = chart.with_version(number)
    added = _add_dependencies(request, root, path, chart, files) if path.is_dir() else 0
    _write(chart.name, files, out)
    return Built(
        name=chart.name,
        version=number,
        original_version=chart.version,
        values_files=used,
        dependencies=added,
        packaged=True,
    )


def _located(root: Path, relative: str) -> Path:
    path = directory.inside(root, relative)
    if path is None:
        raise ChartReferenceError(f"spec.chart: '{relative}' leads out of the source")
    if not path.is_dir() and not path.is_file():
        raise ChartReferenceError(f"spec.chart: there is no chart at '{relative}' in the source")
    return path


def _loaded(path: Path, shown: str) -> tuple[dict[str, bytes], Metadata]:
    try:
        files = directory.load(path) if path.is_dir() else package.load(path)
    except PackageError as exc:
        raise ChartPackageError(f"the chart at '{shown}' cannot be read: {exc}") from exc
    try:
        return files, metadata.read(files)
    except MetadataError as exc:
        raise ChartReferenceError(f"there is no chart at '{shown}': {exc}") from exc


def _version(chart: Metadata, extra: str) -> str:
    if not extra:
        return chart.version
    try:
        return version.with_metadata(chart.version, extra)
    except ValueError as exc:
        raise MetadataPatchError(f"the version of the chart '{chart.name}': {exc}") from exc


def _merged(
    request: PackageRequest, chosen: tuple[str, ...], source: Mapping[str, bytes] | Path
) -> tuple[bytes, tuple[str, ...]]:
    def read(name: str) -> bytes | None:
        if isinstance(source, Path):
            return _values_file(source, name)
        return source.get(_cleaned(name))

    return values.merge(chosen, read, ignore_missing=request.ignore_missing_values_files)


def _values_file(root: Path, name: str) -> bytes | None:
    path = directory.inside(root, name)
    if path is None:
        raise _leads_out(name)
    if not path.is_file():
        return None
    try:
        return directory.read(path, name=name)
    except PackageError as exc:
        raise ValuesFilesError(f"spec.valuesFiles: {exc}") from exc


def _cleaned(name: str) -> str:
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
    if ".." in parts:
        raise _leads_out(name)
    return "/".join(parts)


def _leads_out(name: str) -> ValuesFilesError:
    return ValuesFilesError(f"spec.valuesFiles: '{name}' leads out of the source")


def _add_dependencies(
    request: PackageRequest,
    root: Path,
    path: Path,
    chart: Metadata,
    files: dict[str, bytes],
) -> int:
    lacking = dependencies.missing(chart, files)
    fetched = iter(request.fetched)
    for dependency in lacking:
        if dependencies.is_local(dependency):
            found = dependencies.local(root, path, dependency)
        else:
            found = _fetched(dependency, next(fetched, ""))
        dependencies.place(files, dependency.name, found)
        _guard(files)
    return len(lacking)


def _fetched(dependency: Dependency, file: str) -> dict[str, bytes]:
    try:
        return dependencies.checked(dependency, package.load(Path(file)))
    except (PackageError, OSError) as exc:
        raise DependencyBuildError(
            f"the dependency '{dependency.name}' cannot be read: {exc}"
        ) from exc


def _guard(files: Mapping[str, bytes]) -> None:
    """Refuse a chart that its dependencies have made too large, before the next one is read."""
    size = sum(map(len, files.values()))
    if size > limits.UNPACKED_BYTES or len(files) > limits.FILES:
        raise DependencyBuildError(
            f"with its dependencies the chart has more than {limits.FILES} files "
            f"or {limits.UNPACKED_BYTES >> 20} MiB"
        )


def _write(name: str, files: Mapping[str, bytes], out: Path) -> None:
    try:
        package.write(name, files, out)
    except PackageError as exc:
        out.unlink(missing_ok=True)
        raise ChartPackageError(f"the chart '{name}' cannot be packaged: {exc}") from exc
