"""Fetch the dependencies of a chart in a Git repository or bucket that the chart does not contain.

A dependency names its repository by URL. If a HelmRepository of the same namespace has that URL,
its credentials and its stored index are used. Otherwise the repository is asked without
credentials. The forms ``alias:name`` and ``@name`` mean the HelmRepository of that name.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controllers.access import plainhttp
from controllers.source.charts import PACKAGE, InRegistry, InRepository, Listing, Located, Services
from crds.source_helm import HelmRepository, HelmRepositorySpec
from toolkit.chart import registry as charts_in_registry
from toolkit.chart import repository as charts_in_repository
from toolkit.chart.charts import Dependency, Found
from toolkit.chart.errors import DependencyBuildError
from toolkit.errors import PenstockError

SECONDS: Final = 300.0
"""Timeout for all dependencies of a chart together."""
MAX_INDEXES: Final = 16
"""Limit for one chart; each index may have 50 MiB, and is on disk until the chart is packaged."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index that was fetched for the dependencies of one chart."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Fetches the dependencies of charts."""

    services: Services
    listing: Listing

    async def fetch(
        self, namespace: str, wanted: Sequence[Dependency], into: Path
    ) -> tuple[str, ...]:
        """Write the package of each dependency below the directory ``into``; return the files.

        Raises:
            DependencyBuildError: a dependency cannot be fetched.
        """
        files = []
        indexes: dict[str, Index] = {}
        try:
            async with asyncio.timeout(SECONDS):
                for number, dependency in enumerate(wanted):
                    place = into / str(number)
                    await asyncio.to_thread(place.mkdir)
                    files.append(str(await self._told(namespace, dependency, place, indexes)))
        except TimeoutError as exc:
            raise DependencyBuildError(
                f"fetching the chart's {len(wanted)} dependencies took more than {SECONDS:g} s"
            ) from exc
        return tuple(files)

    async def _told(
        self, namespace: str, dependency: Dependency, into: Path, indexes: dict[str, Index]
    ) -> Path:
        try:
            return await self._fetch(namespace, dependency, into, indexes)
        except PenstockError as exc:
            raise DependencyBuildError(
                f"the dependency '{dependency.name}' ('{dependency.repository}') cannot be "
                f"fetched: {exc}"
            ) from exc

    async def _fetch(
        self, namespace: str, dependency: Dependency, into: Path, indexes: dict[str, Index]
    ) -> Path:
        repository = self._repository(namespace, dependency.repository)
        url = repository.spec.url if repository else dependency.repository
        if plainhttp.scheme(url) == "oci":
            return await self._pull(repository, url, dependency, into)
        if repository is not None and repository.status.artifact is not None:
            chart = InRepository(
                services=self.services,
                repository=repository,
                chart=dependency.name,
                version=dependency.version or "*",
            )
            fetched = await chart.fetch(Located(name="", version=""), into)
            return fetched.root / fetched.path
        settings = repository or HelmRepository(spec=HelmRepositorySpec(url=url))
        if url not in indexes:
            if len(indexes) >= MAX_INDEXES:
                raise DependencyBuildError(
                    f"the chart has dependencies in more than {MAX_INDEXES} repositories without a "
                    "HelmRepository: create a HelmRepository for each"
                )
            indexes[url] = await self._index(namespace, settings, into)
        found = await self.services.charts.find(
            indexes[url].path,
            indexes[url].digest,
            dependency.name,
            dependency.version or "*",
            scope=namespace,
        )
        return await self._download(settings, found, into)

    async def _pull(
        self, repository: HelmRepository | None, url: str, dependency: Dependency, into: Path
    ) -> Path:
        settings = repository or HelmRepository(spec=HelmRepositorySpec(url=url, type="oci"))
        chart = InRegistry(
            services=self.services,
            settings=settings,
            chart=dependency.name,
            version=dependency.version or "*",
        )
        async with chart.open() as registry:
            number = await charts_in_registry.choose(registry, chart.repository, chart.version)
        fetched = await chart.fetch(Located(name=dependency.name, version=number), into)
        return fetched.root / fetched.path

    async def _index(self, namespace: str, settings: HelmRepository, into: Path) -> Index:
        """Fetch the index of a repository for which no HelmRepository has stored one."""
        written, read = into / "index.yaml", into / "index.json"
        await charts_in_repository.download_index(
            self.services.http,
            settings.spec.url,
            await self.services.access.http(settings),
            written,
            timeout=settings.spec.timeout_seconds,
        )
        summary = await self.services.charts.normalize(written, read, flow=namespace)
        await asyncio.to_thread(written.unlink)
        return Index(read, summary.digest)

    async def _download(self, settings: HelmRepository, found: Found, into: Path) -> Path:
        await charts_in_repository.download_chart(
            self.services.http,
            settings.spec.url,
            found,
            await self.services.access.http(settings),
            into / PACKAGE,
            timeout=settings.spec.timeout_seconds,
        )
        return into / PACKAGE

    def _repository(self, namespace: str, reference: str) -> HelmRepository | None:
        """Return the HelmRepository of a dependency, by name or by URL; None if there is none."""
        found = [
            item
            for item in self.listing("HelmRepository", namespace)
            if isinstance(item, HelmRepository)
        ]
        found.sort(key=lambda item: item.metadata.name)
        for prefix in ("alias:", "@"):
            if reference.startswith(prefix):
                name = reference.removeprefix(prefix)
                named = next((item for item in found if item.metadata.name == name), None)
                if named is None:
                    raise DependencyBuildError(f"there is no HelmRepository '{namespace}/{name}'")
                return named
        wanted = charts_in_repository.normalized(reference)
        return next(
            (item for item in found if charts_in_repository.normalized(item.spec.url) == wanted),
            None,
        )
