"""The places that contain charts: HTTP repositories, registries, and artifacts of other sources.

There is one class per kind of place, all with the same interface. ``find`` returns name and version
of the chart with as few requests as possible. ``fetch`` downloads the chart.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec

from controllers.access.registries import in_time
from controllers.source.chartaccess import ChartAccess
from controllers.source.source import Scratch, SourceObject, offered
from crds.meta import Artifact
from crds.source_helm import HelmRepository
from toolkit.artifact import archive, threads
from toolkit.artifact.store import Store
from toolkit.chart import registry as charts_in_registry
from toolkit.chart import repository as charts_in_repository
from toolkit.chart.charts import Charts, Found, Inspected
from toolkit.errors import Told, WaitingError
from toolkit.objects import ObjectKey
from toolkit.policy import origins
from toolkit.policy.origins import Origin
from toolkit.remote.http.http import Http
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry

Lookup = Callable[[str, ObjectKey], SourceObject | None]
"""Returns a source from its informer, by kind and key."""

Listing = Callable[[str, str], Iterable[SourceObject]]
"""Returns the sources of a kind in a namespace from their informer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that fetch charts."""

    http: Http
    charts: Charts
    store: Store
    access: ChartAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """One version of a chart, found but not fetched.

    - ``source`` is the revision of the index, artifact or tag with the chart.
    - ``content`` identifies the content of the chart in a registry; otherwise it is empty.
    - ``tree`` is the directory with the files of the source, if they were needed to find the chart.
    """

    name: str
    version: str
    source: str = ""
    content: str = ""
    tree: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart on disk: a directory or a package at ``path`` below ``root``."""

    root: Path
    path: str
    values_in_chart: bool


class Place(Protocol):
    """A place that contains a chart."""

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Return the origins of the chart."""

    async def find(self, scratch: Scratch) -> Located:
        """Return name and version of the chart.

        Raises:
            PenstockError: the place has no such chart, or cannot be reached.
        """
        ...

    async def fetch(self, located: Located, into: Path) -> Chart:
        """Download the chart into the empty directory ``into``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InRepository:
    """A chart in the index of an HTTP repository."""

    services: Services
    repository: HelmRepository
    chart: str
    version: str

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Return the current address of the repository, and the origin of its stored index."""
        index = stored(self.repository, "HelmRepository")
        known = origins.of_part("HelmRepository", self.repository.metadata.name, index)
        return (_own(self.repository), *known)

    async def find(self, scratch: Scratch) -> Located:  # noqa: ARG002  # a Place's
        """Look the version up in the stored index; no request is made."""
        artifact = stored(self.repository, "HelmRepository")
        found = await self._entry(artifact)
        return Located(name=found.name, version=found.version, source=artifact.revision)

    async def fetch(self, located: Located, into: Path) -> Chart:  # noqa: ARG002  # a Place's
        """Download the package, and check its digest."""
        found = await self._entry(stored(self.repository, "HelmRepository"))
        await charts_in_repository.download_chart(
            self.services.http,
            self.repository.spec.url,
            found,
            await self.services.access.http(self.repository),
            into / PACKAGE,
            timeout=self.repository.spec.timeout_seconds,
        )
        return Chart(root=into, path=PACKAGE, values_in_chart=True)

    async def _entry(self, artifact: Artifact) -> Found:
        charts = self.services.charts
        scope = self.repository.metadata.namespace
        known = charts.known(artifact.digest, self.chart, self.version, scope=scope)
        if known is not None:
            return known
        async with self.services.store.local(artifact) as index:
            return await charts.find(index, artifact.digest, self.chart, self.version, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class InRegistry:
    """A chart in a registry, under a tag.

    ``pinned``: always resolve the tag to a digest, because the signature must be verified.
    """

    services: Services
    settings: HelmRepository
    chart: str
    version: str
    pinned: bool = False

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Return the address of the registry."""
        return (_own(self.settings),)

    @property
    def repository(self) -> Repository:
        """Return the repository of the chart in the registry.

        Raises:
            RepositoryURLError: the URL and the name of the chart form no valid repository.
        """
        return Repository.parse(f"{self.settings.spec.url.rstrip('/')}/{self.chart.strip('/')}")

    async def find(self, scratch: Scratch) -> Located:  # noqa: ARG002  # a Place's
        """Resolve the tag to its digest, or list the tags for a version range."""
        repository, digest = self.repository, ""
        async with self.open() as registry:
            number = await charts_in_registry.choose(registry, repository, self.version)
            if self.pinned or number == self.version:
                found = await charts_in_registry.resolve(registry, repository, number)
                digest = found.digest
        name = repository.name.rpartition("/")[2]
        return Located(name=name, version=number, source=digest, content=digest)

    async def fetch(self, located: Located, into: Path) -> Chart:
        """Pull the package by the digest of ``located``."""
        repository, digest = self.repository, located.content
        async with self.open() as registry, in_time(self.settings.spec.timeout_seconds, "it"):
            if not digest:
                found = await charts_in_registry.resolve(registry, repository, located.version)
                digest = found.digest
            await charts_in_registry.pull(registry, repository, digest, into / PACKAGE)
        return Chart(root=into, path=PACKAGE, values_in_chart=True)

    def open(self) -> AbstractAsyncContextManager[Registry]:
        """Open the registry with the settings of the HelmRepository."""
        return self.services.access.registry(self.settings, self.repository)


@dataclass(frozen=True, slots=True, kw_only=True)
class InArtifact:
    """A chart in the artifact of a GitRepository or Bucket."""

    services: Services
    source: SourceObject
    kind: str
    chart: str
    seen: "Seen"

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Return the origins of the artifact."""
        artifact = stored(self.source, self.kind)
        return origins.of_part(self.kind, self.source.metadata.name, artifact)

    async def find(self, scratch: Scratch) -> Located:
        """Read the chart in the artifact; the result is cached by the digest of the artifact."""
        artifact, tree = stored(self.source, self.kind), None
        asked = (self.source.metadata.namespace, artifact.digest, self.chart)
        inspected = self.seen.get(asked)
        if inspected is None:
            tree = await scratch.directory()
            await self._unpack(artifact, tree)
            inspected = await self.services.charts.inspect(
                tree, self.chart, flow=self.source.metadata.namespace
            )
            self.seen.put(asked, inspected)
        return Located(
            name=inspected.name, version=inspected.version, source=artifact.revision, tree=tree
        )

    async def fetch(self, located: Located, into: Path) -> Chart:
        """Unpack the artifact, unless ``find`` has done so."""
        if located.tree is None:
            await self._unpack(stored(self.source, self.kind), into)
        return Chart(root=located.tree or into, path=self.chart, values_in_chart=False)

    async def _unpack(self, artifact: Artifact, tree: Path) -> None:
        async with self.services.store.local(artifact) as file:
            await threads.run(lambda checkpoint: archive.unpack(file, tree, checkpoint=checkpoint))


class Seen:
    """A cache of the charts in artifacts, with the entries added last."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._found: OrderedDict[tuple[str, str, str], Inspected] = OrderedDict()

    def get(self, asked: tuple[str, str, str]) -> Inspected | None:
        """Return the chart for a namespace, the digest of an artifact and a path in it, or None."""
        return self._found.get(asked)

    def put(self, asked: tuple[str, str, str], inspected: Inspected) -> None:
        """Add an entry; if the cache is full, drop the oldest one."""
        self._found[asked] = inspected
        while len(self._found) > self._capacity:
            self._found.popitem(last=False)


PACKAGE: Final = "chart.tgz"


def _own(repository: HelmRepository) -> Origin:
    return origins.own(msgspec.to_builtins(repository))


def stored(source: SourceObject, kind: str) -> Artifact:
    """Return the artifact of a source.

    Raises:
        WaitingError: the source has no artifact yet.
    """
    artifact = offered(source, kind)
    if artifact is None:
        raise WaitingError(
            f"no artifact available for {kind} source '{source.metadata.name}'",
            reason="NoSourceArtifact",
            told=Told(trace=True),
        )
    return artifact
