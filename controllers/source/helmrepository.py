"""HelmRepository: the index of a chart repository, stored as compact JSON for lookups of charts.

The revision is the digest of the index as the server sent it, as in Flux (source-controller
``internal/helm/repository/chart_repository.go``, ``Digest``).

Requests are conditional if the server supports ETag or Last-Modified, so an unchanged index costs a
request without a body. The validators are only in the memory of this process, so after a restart
the index is fetched once. Repositories of type ``oci`` have no index. They only contain settings
for HelmCharts, and are never reconciled.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from controllers.source import remedies
from controllers.source.beginnings import beginning
from controllers.source.chartaccess import ChartAccess
from controllers.source.source import SUCCEEDED, Fetched, File, Scratch, Upstream
from crds.kind import Kind
from crds.meta import Artifact
from crds.source_helm import HelmRepository
from toolkit.chart import repository
from toolkit.chart.charts import Charts
from toolkit.chart.errors import IndexationError
from toolkit.chart.repository import Validators
from toolkit.errors import StalledError, TransientError
from toolkit.remote.http.http import Endpoint, Http, HttpError


def static(obj: HelmRepository) -> bool:
    """Tell whether the object is never reconciled: a registry has no index to fetch."""
    return obj.spec.type == "oci"


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A fetched index; ``path`` is its compact JSON, ``size`` the size of its YAML in bytes."""

    path: Path
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmRepositoryUpstream(Upstream):
    """The revision of the index, and the index; None if it is already stored."""

    endpoint: Endpoint = field(repr=False)
    index: Index | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmRepositorySource:
    """``Source`` for HelmRepository with an index."""

    kind: Kind[HelmRepository]
    http: Http
    charts: Charts
    access: ChartAccess
    remembered: "OrderedDict[tuple[str, str], _Remembered]" = field(default_factory=OrderedDict)

    async def resolve(self, obj: HelmRepository, scratch: Scratch) -> HelmRepositoryUpstream:
        """Fetch the index, unless the server answers that the stored one is unchanged."""
        _require_http(obj)
        endpoint = await self.access.http(obj)
        known = self._known(obj)
        index, revision = await self._look(
            obj, endpoint, await scratch.directory(), known.validators if known else None
        )
        if index is None and known is not None:
            revision = known.revision
        return HelmRepositoryUpstream(
            revision=revision, endpoint=endpoint, index=index, content_addressed=True
        )

    async def fetch(
        self, obj: HelmRepository, upstream: HelmRepositoryUpstream, into: Path
    ) -> Fetched:
        """Return the index; fetch it again only if the stored one was lost after ``resolve``."""
        index = upstream.index
        if index is None:
            index, revision = await self._look(obj, upstream.endpoint, into, None)
            if index is None or revision != upstream.revision:
                raise TransientError("the index changed while it was fetched")
        filename = f"index-{upstream.revision.removeprefix('sha256:')}.yaml"
        return Fetched(
            filename=filename,
            summary=f"stored fetched index of size {human_size(index.size)} from '{obj.spec.url}'",
            content=File(path=index.path),
        )

    def message(self, obj: HelmRepository, artifact: Artifact) -> str:  # noqa: ARG002  # Source's
        """Return the Ready message for a stored index."""
        return f"stored artifact: revision '{artifact.revision}'"

    def reason(self, artifact: Artifact) -> str:  # noqa: ARG002  # one for all
        """Return the reason of Ready for a stored artifact."""
        return SUCCEEDED

    async def _look(
        self, obj: HelmRepository, endpoint: Endpoint, directory: Path, known: Validators | None
    ) -> tuple[Index | None, str]:
        """Fetch the index, and return it with its revision; None and empty if it is unchanged.

        ``known`` are the validators of the stored index.
        """
        written, read = directory / "index.yaml", directory / "index.json"
        advice = partial(remedies.of_charts, obj)
        with beginning(_UNFETCHED, HttpError, IndexationError, reason="Failed", advice=advice):
            told = await repository.download_index(
                self.http,
                obj.spec.url,
                endpoint,
                written,
                known=known,
                timeout=obj.spec.timeout_seconds,
            )
        if told is None:
            return None, ""
        with beginning(_UNREAD, IndexationError):
            await self.charts.normalize(written, read, flow=obj.metadata.namespace)
        revision = f"sha256:{told.digest}"
        self._remember(obj, _Remembered(told.validators, revision))
        size = (await asyncio.to_thread(written.stat)).st_size
        return Index(path=read, size=size), revision

    def _known(self, obj: HelmRepository) -> "_Remembered | None":
        """Return the validators of the stored index, or None if the server sent none."""
        known = self.remembered.get(_key(obj))
        stored = obj.status.artifact
        if known is None or stored is None or stored.revision != known.revision:
            return None
        return known if known.validators.headers else None

    def _remember(self, obj: HelmRepository, what: "_Remembered") -> None:
        self.remembered[_key(obj)] = what
        self.remembered.move_to_end(_key(obj))
        while len(self.remembered) > _REMEMBERED:
            self.remembered.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The validators of an index from the server, and its revision."""

    validators: Validators
    revision: str


_REMEMBERED: Final = 4096
_UNFETCHED: Final = "failed to fetch Helm repository index: failed to cache index to temporary file"
_UNREAD: Final = "failed to load Helm repository from index YAML"


def _require_http(obj: HelmRepository) -> None:
    """Refuse the URL of a registry, for objects that were stored without admission validation."""
    if obj.spec.url.startswith("oci://"):
        raise StalledError(
            "invalid Helm repository URL: 'oci' URL scheme cannot be used with 'default' "
            "HelmRepository type: set spec.type to 'oci'",
            reason="URLInvalid",
        )


def _key(obj: HelmRepository) -> tuple[str, str]:
    return f"{obj.metadata.namespace}/{obj.metadata.name}", obj.spec.url


def human_size(size: float) -> str:
    """Return a size in bytes as Flux formats it: four digits and a decimal unit, ``30.5kB``."""
    units = ("B", "kB", "MB", "GB")
    place = 0
    while size >= 1000 and place < len(units) - 1:
        size /= 1000
        place += 1
    return f"{size:.4g}{units[place]}"
