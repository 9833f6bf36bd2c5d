"""The object whose artifact is the chart, and whether a HelmRelease may use it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from controllers.applying.identity import Origin, signer
from controllers.helm.deciding import chartsources, charttemplate
from crds import HELM_CHART, HELM_RELEASE
from crds.helm import HelmRelease
from crds.meta import Artifact
from crds.source_helm import HelmChart
from toolkit.artifact import fetch
from toolkit.artifact.store import Owner
from toolkit.errors import StalledError, Told, WaitingError
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References

KIND: Final = GroupVersionKind(*HELM_RELEASE.gvk)
_SOURCE: Final = "source.toolkit.fluxcd.io"
_CORRECTED_SECONDS: Final = 1.0
"""Time until the watch shows a corrected HelmChart."""

Lookup = Callable[[ObjectKey], chartsources.Source | None]


class SourcePolicy(Protocol):
    """Decides which sources may be used (``controllers.sourcepolicies``)."""

    def check(self, obj: chartsources.Source) -> object:
        """Raise ``AccessDeniedError`` if a policy forbids the source."""

    def check_artifact(self, obj: chartsources.Source, metadata: Mapping[str, str]) -> object:
        """Raise ``AccessDeniedError`` if a policy forbids an artifact with these metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSource:
    """A source, and its artifact that contains the chart."""

    ref: ObjectRef
    artifact: Artifact

    @property
    def owner(self) -> Owner:
        """Return the source as the owner that the artifact must have."""
        return Owner(kind=self.ref.gvk.kind, namespace=self.ref.namespace, name=self.ref.name)

    @property
    def verified(self) -> str:
        """Return the signer of the artifact for messages; empty if no signature was required."""
        return signer(self.ref, self.artifact)

    @property
    def origin(self) -> Origin:
        """Return the provenance of objects that are applied from this artifact."""
        return Origin(
            source=self.ref,
            revision=self.artifact.revision,
            digest=self.artifact.digest,
            verified=self.verified,
        )


class ChartReader:
    """Reads sources from the informers, and enforces ReferenceGrants and SourcePolicies."""

    def __init__(
        self,
        lookups: Mapping[str, tuple[GroupVersionKind, Lookup]],
        *,
        policy: References,
        sources: SourcePolicy,
    ) -> None:
        self._lookups = lookups
        self._policy = policy
        self._sources = sources

    def require_granted(self, obj: HelmRelease) -> None:
        """Require that the source of ``spec.chart`` may be referred to.

        The check is needed here because the controller creates the HelmChart in the namespace of
        the source with its own identity.

        Raises:
            AccessDeniedError: the source is in another namespace, and no grant there allows it.
            WaitingError: the grants have not been listed yet.
        """
        if target := self.granting(obj):
            self._policy.require(ref_to(obj), target)

    def granting(self, obj: HelmRelease) -> ObjectRef | None:
        """Return the source that ``spec.chart`` names; None without ``spec.chart``."""
        if obj.spec.chart is None:
            return None
        said = obj.spec.chart.spec.source_ref
        kind = GroupVersionKind(_SOURCE, "", said.kind)
        return ObjectRef(kind, said.namespace or obj.metadata.namespace, said.name)

    def other_chart(self, obj: HelmRelease) -> ObjectRef | None:
        """Return the HelmChart of ``spec.chart`` under its other name; None without it."""
        place = charttemplate.other_key(obj)
        known = self._lookups.get(HELM_CHART.kind)
        return ObjectRef(known[0], place.namespace, place.name) if place and known else None

    def reference(self, obj: HelmRelease) -> ObjectRef:
        """Return the object whose artifact is the chart.

        Raises:
            StalledError: the spec names no source, or one of a kind that this process does not
                watch.
        """
        found = chartsources.source(obj)
        kind = found[0] if found else ""
        if found is None or kind not in self._lookups:
            served = ", ".join(sorted(self._lookups))
            raise StalledError(
                f"spec names no chart of a supported kind (kind {kind!r}): set spec.chart, or"
                f" spec.chartRef with one of the kinds {served}",
                reason=fetch.REASON,
            )
        return ObjectRef(self._lookups[kind][0], found[1].namespace, found[1].name)

    def resolve(self, obj: HelmRelease) -> ChartSource:
        """Return the source and its artifact that contains the chart.

        Raises:
            StalledError: an error of ``reference``.
            AccessDeniedError: no grant allows the reference to another namespace, or a policy
                forbids the source.
            WaitingError: the source does not exist or is not ready, its chart is not the one of
                ``spec.chart``, or policies have not been listed yet.
        """
        ref = self.reference(obj)
        if obj.spec.chart is None:
            self._policy.require(ref_to(obj), ref)
        else:
            self.require_granted(obj)
        kind = ref.gvk.kind
        source = self._lookups[kind][1](ref.key)
        if source is None and obj.spec.chart is not None:
            raise chartsources.unready(kind, ref.key)  # The HelmChart has just been created.
        if source is None:
            raise WaitingError(
                f"could not get Source object: {kind} '{ref.key}' not found: create it, or correct "
                "spec.chartRef",
                reason=fetch.REASON,
                told=Told(event=""),
            )
        artifact = chartsources.artifact(kind, source, reader=obj.metadata.namespace)
        if isinstance(source, HelmChart) and (why := charttemplate.unusable(source, obj)):
            raise chartsources.unready(kind, ref.key, why, retry_after=_CORRECTED_SECONDS)
        self._sources.check(source)
        self._sources.check_artifact(source, artifact.metadata)
        return ChartSource(ref=ref, artifact=artifact)

    def require_allowed(self, source: ChartSource) -> None:
        """Require that policies allow an artifact that is not in the status of the source.

        Raises:
            AccessDeniedError: a policy forbids the origin or the signer of the artifact.
        """
        found = self._lookups[source.ref.gvk.kind][1](source.ref.key)
        if found is not None:
            self._sources.check_artifact(found, source.artifact.metadata)


def ref_to(obj: HelmRelease) -> ObjectRef:
    """Return the reference to a HelmRelease."""
    return ObjectRef(KIND, obj.metadata.namespace, obj.metadata.name)
