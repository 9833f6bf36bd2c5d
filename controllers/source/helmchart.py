"""HelmChart: one version of a chart, with its values files and dependencies, ready to be installed.

If the spec selects the stored version, nothing is fetched. This check costs one request for a chart
in a registry. It costs none for a chart in an HTTP repository, whose index is an artifact, and none
for a chart in the artifact of another source.

The metadata of the artifact contain a digest of its inputs (the recipe). Another chart, or other
values files, make a new artifact even if the version is the same. As in Flux, other content with
the same version does not, unless ``reconcileStrategy: Revision`` puts the revision into the
version.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from controllers.access.registries import in_time
from controllers.source import signatures
from controllers.source.beginnings import of_chart
from controllers.source.charging import Charging
from controllers.source.chartdependencies import Dependencies
from controllers.source.charts import (
    InArtifact,
    InRegistry,
    InRepository,
    Located,
    Lookup,
    Place,
    Seen,
    Services,
)
from controllers.source.replacement import replacing
from controllers.source.signatures import Policy, Verify
from controllers.source.source import Fetched, File, Scratch, Upstream
from crds.helm import OWNER_NAME
from crds.kind import Kind
from crds.meta import Artifact
from crds.source_helm import HelmChart, HelmRepository
from toolkit.chart import values, version
from toolkit.chart.charts import Built, PackageRequest
from toolkit.chart.errors import ChartPullError, MetadataPatchError
from toolkit.errors import StalledError, TransientError
from toolkit.kube.secrets import Secrets
from toolkit.objects import ObjectKey
from toolkit.remote.oci.oci import Descriptor
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject

SUMMARY: Final = "source.penstock.dev/summary"
"""Artifact metadata: the Ready message."""

_PACKAGED: Final = "packaged"
_UNVERIFIED: Final = "ChartVerificationError"

KINDS: Final = ("HelmRepository", "GitRepository", "Bucket")


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmChartUpstream(Upstream):
    """The chart that the spec selects now, and its place."""

    place: Place
    located: Located
    news: str = "NewChart"


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmChartSource:
    """``Source`` for HelmChart. ``charging`` is None if there is no quota."""

    kind: Kind[HelmChart]
    services: Services
    dependencies: Dependencies
    secrets: Secrets
    verify: Verify
    lookup: Lookup
    charging: Charging | None = None
    seen: Seen = field(default_factory=Seen)

    async def resolve(self, obj: HelmChart, scratch: Scratch) -> HelmChartUpstream:
        """Find the chart; ``controllers.source.charts`` says which requests that takes."""
        with of_chart():
            return await self._resolve(obj, scratch)

    async def fetch(self, obj: HelmChart, upstream: HelmChartUpstream, into: Path) -> Fetched:
        """Verify the chart if the spec asks for it, fetch it, and package it."""
        with of_chart():
            return await self._fetch(obj, upstream, into)

    async def _resolve(self, obj: HelmChart, scratch: Scratch) -> HelmChartUpstream:
        charged = await self.charging.account(obj) if self.charging else ""
        place = self._place(obj)
        policy, trust = await self._policy(obj, place)
        with replacing(obj.status.artifact, trust, reason=_UNVERIFIED):
            located = await place.find(scratch)
        prove = None
        if policy and isinstance(place, InRegistry):
            prove = partial(self._prove, place, located, policy, obj.metadata.namespace)
        return HelmChartUpstream(
            revision=_version(obj, located),
            trust=trust,
            place=place,
            located=located,
            recipe=_recipe(obj, located),
            prove=prove,
            parts=place.origins,
            charged=charged,
            content_addressed=bool(located.content),
            status={"observedSourceArtifactRevision": located.source},
        )

    async def _fetch(self, obj: HelmChart, upstream: HelmChartUpstream, into: Path) -> Fetched:
        located, place = upstream.located, upstream.place
        proof = await upstream.prove() if upstream.prove else None
        origin, fetched, out = (into / name for name in ("origin", "dependencies", "out.tgz"))
        await asyncio.to_thread(origin.mkdir)
        await asyncio.to_thread(fetched.mkdir)
        with replacing(obj.status.artifact, upstream.trust, reason=_UNVERIFIED):
            chart = await place.fetch(located, origin)
        flow = upstream.charged or obj.metadata.namespace
        inspected = await self.services.charts.inspect(chart.root, chart.path, flow=flow)
        dependencies = await self.dependencies.fetch(
            obj.metadata.namespace, inspected.missing, fetched
        )
        built = await self.services.charts.package(
            PackageRequest(
                root=str(chart.root),
                path=chart.path,
                out=str(out),
                metadata=_metadata(obj, located),
                values_files=values.chosen(obj.spec.all_values_files),
                values_in_chart=chart.values_in_chart,
                ignore_missing_values_files=obj.spec.ignore_missing_values_files,
                fetched=dependencies,
            ),
            flow=flow,
        )
        _require_same(located, built)
        return _described(built, out, proof)

    def message(self, obj: HelmChart, artifact: Artifact) -> str:
        """Return the Ready message for a stored chart."""
        usual = f"pulled '{obj.spec.chart}' chart with version '{artifact.revision}'"
        return artifact.metadata.get(SUMMARY, usual)

    def reason(self, artifact: Artifact) -> str:
        """Return the reason of Ready: the chart was either packaged here or pulled unchanged."""
        packaged = artifact.metadata.get(SUMMARY, "").startswith(_PACKAGED)
        return "ChartPackageSucceeded" if packaged else "ChartPullSucceeded"

    def _place(self, obj: HelmChart) -> Place:
        reference = obj.spec.source_ref
        if reference.kind not in KINDS:
            raise StalledError(
                f"failed to get source: unsupported source kind '{reference.kind}', must be one "
                f"of: [{' '.join(KINDS)}]: correct spec.sourceRef.kind",
                reason="UnsupportedSourceKind",
            )
        source = self.lookup(reference.kind, ObjectKey(obj.metadata.namespace, reference.name))
        if source is None:
            raise TransientError(
                f"failed to get source: {reference.kind} "
                f"'{obj.metadata.namespace}/{reference.name}' not found: create it, or correct "
                "sourceRef",
                reason="SourceUnavailable",
            )
        if not isinstance(source, HelmRepository):
            return InArtifact(
                services=self.services,
                source=source,
                kind=reference.kind,
                chart=obj.spec.chart,
                seen=self.seen,
            )
        wanted = obj.spec.version or "*"
        if source.spec.type == "oci":
            return InRegistry(
                services=self.services,
                settings=source,
                chart=obj.spec.chart,
                version=wanted,
                pinned=obj.spec.verify is not None,
            )
        return InRepository(
            services=self.services, repository=source, chart=obj.spec.chart, version=wanted
        )

    async def _policy(self, obj: HelmChart, place: Place) -> tuple[Policy | None, str]:
        """Return the policy for signatures, and its identity for the metadata of the artifact."""
        # v1beta2 allowed spec.verify with other kinds of sources, where Flux ignores it.
        if obj.spec.verify is None or isinstance(place, InArtifact):
            return None, ""
        if not isinstance(place, InRegistry):
            raise StalledError(
                "spec.verify is only possible for charts in a registry: the HelmRepository "
                "must be of type 'oci'",
                reason=_UNVERIFIED,
            )
        try:
            found = await signatures.policy(self.secrets, obj.metadata.namespace, obj.spec.verify)
        except VerificationError as exc:
            raise _unverified(exc) from exc
        return found, signatures.trust(found, place.repository)

    async def _prove(
        self, place: InRegistry, located: Located, policy: Policy, scope: str
    ) -> Proof:
        """Verify the signature of the digest that will be pulled."""
        signed = Descriptor(media_type="", digest=located.content, size=0)
        seconds = place.settings.spec.timeout_seconds
        async with place.open() as registry, in_time(seconds, "a proof of its signature"):
            subject = Subject(store=registry, repository=place.repository, descriptor=signed)
            try:
                return await self.verify(subject, policy, scope=scope)
            except VerificationError as exc:
                raise _unverified(exc) from exc


def parents(obj: HelmChart) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the source with the chart."""
    yield obj.spec.source_ref.kind, obj.spec.source_ref.name


def held(obj: HelmChart) -> bool:
    """Tell whether a HelmChart gets the finalizer, which delays its deletion.

    With the finalizer, the HelmChart exists until its artifacts are deleted. HelmCharts of
    HelmReleases get none, because each would cost the deletion of the HelmRelease a write.
    """
    return OWNER_NAME not in obj.metadata.labels


def _metadata(obj: HelmChart, located: Located) -> str:
    """Return the build metadata for the version, or empty (Flux: ``VersionMetadata``)."""
    parts = []
    source = obj.spec.source_ref.kind
    if source != "HelmRepository" and obj.spec.reconcile_strategy == "Revision":
        # The version becomes the value of labels, which have at most 63 characters.
        parts.append(located.source.rpartition(":")[2][:12])
    if values.chosen(obj.spec.all_values_files):
        # Merged values may differ from those of the original version, so the version must differ.
        parts.append(str(obj.metadata.generation))
    return ".".join(parts)


def _version(obj: HelmChart, located: Located) -> str:
    metadata = _metadata(obj, located)
    if not metadata:
        return located.version
    try:
        return version.with_metadata(located.version, metadata)
    except ValueError as exc:
        raise MetadataPatchError(f"the version of the chart '{located.name}': {exc}") from exc


def _recipe(obj: HelmChart, located: Located) -> str:
    spec = obj.spec
    reference = spec.source_ref
    parts = [
        *(reference.kind, reference.name, spec.chart, spec.reconcile_strategy, located.content),
        *("ignore missing" if spec.ignore_missing_values_files else "", *spec.all_values_files),
    ]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _require_same(located: Located, built: Built) -> None:
    """Refuse a package whose name or version differs from the chart that was found."""
    same = version.shown(version.parse(built.original_version)) == version.shown(
        version.parse(located.version)
    )
    if built.name != located.name or not same:
        raise ChartPullError(
            f"expected the chart '{located.name}' in version '{located.version}', but found "
            f"'{built.name}' in version '{built.original_version}'"
        )


def _described(built: Built, out: Path, proof: Proof | None) -> Fetched:
    summary = _summary(built)
    return Fetched(
        filename=f"{built.name}-{built.version}.tgz",
        summary=summary,
        content=File(path=out),
        proof=proof,
        vouched=not built.dependencies,
        metadata={SUMMARY: summary},
        status={
            "observedChartName": built.name,
            "observedValuesFiles": list(built.values_files) or None,
        },
    )


def _summary(built: Built) -> str:
    done = _PACKAGED if built.packaged else "pulled"
    merged = f" and merged values files [{' '.join(built.values_files)}]"
    text = f"{done} '{built.name}' chart with version '{built.version}'"
    return text + (merged if built.values_files else "")


def _unverified(error: VerificationError) -> VerificationError:
    """Return the error with the reason for charts."""
    return VerificationError(error.finding, reason=_UNVERIFIED, step=error.step)
