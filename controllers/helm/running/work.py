"""The inputs of the release stages of one reconciliation."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from controllers.applying.clusters import Cluster
from controllers.helm.deciding import manifests, snapshots, states, targets
from controllers.helm.deciding.chartsources import Version
from controllers.helm.deciding.outcomes import metadata
from controllers.helm.deciding.states import Desired
from controllers.helm.inputs import Values
from controllers.helm.running.draft import Draft
from controllers.helm.running.engine import Target
from controllers.helm.running.memory import Kept
from controllers.helm.sources import ChartSource
from crds.helm import HelmRelease
from crds.helm_status import Snapshot
from toolkit.objects import Json


class Opened(Protocol):
    """Opens the chart (``controllers.helm.charts``)."""

    def opened(self, source: ChartSource) -> AbstractAsyncContextManager[Path]:
        """Yield the directory of the chart."""


@dataclass(slots=True, kw_only=True)
class Work:
    """The current and the desired state of a release.

    The first decision resets ``forced``. ``objects`` and ``manifest`` are those of the newest
    record, if this reconciliation has read it.
    """

    draft: Draft
    kept: Kept
    cluster: Cluster
    target: Target
    source: ChartSource
    charts: Opened
    values: Values
    desired: Desired
    version: Version
    forced: bool = False
    objects: tuple[Json, ...] | None = field(default=None, repr=False)
    manifest: str = field(default="", repr=False)

    @property
    def obj(self) -> HelmRelease:
        """Return the object with all changes of its status so far."""
        return self.draft.obj

    @property
    def compared(self) -> bool:
        """Tell whether the cluster was compared with the release since the spec last changed."""
        return self.kept.compared == self.obj.metadata.generation

    @compared.setter
    def compared(self, value: bool) -> None:
        self.kept.compared = self.obj.metadata.generation if value else 0

    @property
    def latest(self) -> Snapshot | None:
        """Return the newest release of the history."""
        return snapshots.latest(self.obj.status.history)

    @property
    def attempted(self) -> tuple[str, ...]:
        """Return the identity of the desired state (``attempted``)."""
        return attempted(self.desired.chart_version, self.desired.config_digest, self.obj)

    def renders(self, obj: Json) -> bool:
        """Tell whether the manifest of the release contains an object (``manifests.renders``)."""
        return manifests.renders(self.manifest, obj)

    @property
    def changes(self) -> Json:
        """Return the metadata of an event with the changes by the last action."""
        return {"changes": self.kept.changes} if self.kept.changes else {}

    @property
    def wanted(self) -> dict[str, str]:
        """Return the placeholders for messages about the desired release."""
        namespace, name = targets.release_namespace(self.obj), targets.release_name(self.obj)
        chart = f"{self.desired.chart_name}@{self.desired.chart_version}"
        return {"target": f"{namespace}/{name}", "wanted": chart}

    @property
    def wanted_metadata(self) -> Json:
        """Return the metadata of an event about the desired release."""
        return metadata(
            revision=self.desired.chart_version,
            token=self.desired.config_digest,
            app_version=self.desired.app_version,
            oci_digest=self.version.oci_digest,
        )


def attempted(chart_version: str, config_digest: str, obj: HelmRelease) -> tuple[str, ...]:
    """Return the identity of a desired state: chart version and the digests of other inputs."""
    digests = (states.post_renderers_digest(obj), states.common_metadata_digest(obj))
    return (chart_version, config_digest, *digests)


def words(snapshot: Snapshot) -> dict[str, str]:
    """Return the placeholders for messages about a release of the history."""
    return {
        "release": snapshots.release_name(snapshot),
        "chart": snapshots.chart_name(snapshot),
    }


def metadata_of(snapshot: Snapshot) -> Json:
    """Return the metadata of an event about a release of the history."""
    return metadata(
        revision=snapshot.chart_version,
        token=snapshot.config_digest,
        app_version=snapshot.app_version,
        oci_digest=snapshot.oci_digest,
    )
