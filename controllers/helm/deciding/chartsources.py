"""The source of the chart, whether it is ready, and the version to release. Pure.

A tag can be moved. So the version of a chart from a registry gets the first 12 characters of the
artifact's digest. Then changed content has another version and is released (helm-controller
``mutateChartWithSourceRevision``).
"""

from dataclasses import dataclass
from typing import Final, Protocol

from controllers.helm.deciding import charttemplate
from crds.helm import HelmRelease
from crds.meta import Artifact, Condition, Conditions, ObjectMeta
from toolkit.chart import version
from toolkit.errors import Told, TransientError, WaitingError
from toolkit.objects import ObjectKey

NOT_READY: Final = "SourceNotReady"

_SHOWN: Final = 12
_WITH_DIGESTS: Final = frozenset({"OCIRepository", "ExternalArtifact"})
_UNOBSERVED: Final = "latest generation of object has not been reconciled"
_OF_CHARTS: Final = frozenset(
    {
        "AccessDenied",
        "ChartPackageError",
        "ChartPullError",
        "DependencyBuildError",
        "IndexationFailed",
        "InvalidChartReference",
        "MetadataPatchError",
        "NoSourceArtifact",
        "SourceUnavailable",
        "StorageOperationFailed",
        "UnsupportedSourceKind",
        "ValuesFilesError",
    }
)
"""Reasons of conditions whose messages are about the chart (``toolkit.chart.errors``)."""
_ELSEWHERE: Final = "its conditions, in the namespace of the source, say why"
_EMPTY: Final = "does not have an artifact"


class Status(Protocol):
    """The part of a source's status that is needed here."""

    @property
    def artifact(self) -> Artifact | None:
        """Return the stored artifact."""

    @property
    def conditions(self) -> Conditions:
        """Return the conditions."""

    @property
    def observed_generation(self) -> int:
        """Return the generation that the status describes."""


class Source(Protocol):
    """The object whose artifact is the chart."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return namespace, name and generation."""

    @property
    def status(self) -> Status:
        """Return the status."""


class ChartMutateError(TransientError):
    """The revision of the artifact does not fit the version of the chart."""

    default_reason = "ChartMutateError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The version to release, and the digest of the artifact if the source is a registry."""

    version: str
    oci_digest: str = ""


def source(obj: HelmRelease) -> tuple[str, ObjectKey] | None:
    """Return kind and key of the object whose artifact is the chart, or None."""
    if place := charttemplate.key(obj):
        return "HelmChart", place
    ref = obj.spec.chart_ref
    if ref is None:
        return None
    return ref.kind, ObjectKey(ref.namespace or obj.metadata.namespace, ref.name)


def artifact(kind: str, found: Source, *, reader: str) -> Artifact:
    """Return the artifact of a source that is ready.

    An ExternalArtifact, whose status other controllers write, is ready if it has an artifact.
    ``reader`` is the namespace of the HelmRelease: it is told why a source of another namespace is
    not ready only if this is about the chart, and not about Secrets of that namespace.

    Raises:
        WaitingError: the source is not ready.
    """
    stored = found.status.artifact
    near = reader == found.metadata.namespace
    why = "" if kind == "ExternalArtifact" else _unready(found, near=near)
    if stored is not None and not why:
        return stored
    why = why or _failure(found, near=near) or _EMPTY
    raise unready(kind, ObjectKey(found.metadata.namespace, found.metadata.name), why)


def unready(
    kind: str, place: ObjectKey, why: str = _EMPTY, *, retry_after: float | None = None
) -> WaitingError:
    """Return the error that a source is not ready because of ``why``."""
    return WaitingError(
        f"{kind} '{place}' is not ready: {why}",
        reason=NOT_READY,
        retry_after=retry_after,
        told=Told(event=""),
    )


def released(chart: str, kind: str, revision: str, *, tracks: bool = True) -> Version:
    """Return the version under which a chart with the version ``chart`` is released.

    ``tracks`` is false if the gate ``DisableChartDigestTracking`` is set. Then the version stays
    unchanged, but the digest is still returned.

    Raises:
        ChartMutateError: the revision has another version, or contains no digest.
    """
    if kind not in _WITH_DIGESTS or (kind == "ExternalArtifact" and ":" not in revision):
        return Version(version=chart)
    tag, _, digest = revision.rpartition("@")
    _require_same(tag, chart)
    algorithm, colon, text = digest.partition(":")
    if not (algorithm and colon) or ":" in text or len(text) < _SHOWN:
        raise ChartMutateError(f"invalid artifact revision {revision}")
    try:
        marked = version.with_metadata(chart, text[:_SHOWN]) if tracks else chart
    except ValueError as exc:
        raise ChartMutateError(f"invalid artifact revision {revision}") from exc
    return Version(version=marked, oci_digest=digest)


def _require_same(tag: str, chart: str) -> None:
    """Require that the tag is the version of the chart, if the tag is a version."""
    try:
        own = version.parse(chart)
    except ValueError as exc:
        raise ChartMutateError(f"invalid chart version {chart}") from exc
    try:
        tagged = version.parse(version.from_tag(tag))
    except ValueError:
        return
    if tagged != own:
        raise ChartMutateError(f"artifact revision {tag} does not match chart version {chart}")


def _unready(found: Source, *, near: bool) -> str:
    """Return why a source is not ready, from its conditions; empty if nothing is wrong."""
    conditions = {each.type: each for each in found.status.conditions}
    if found.metadata.generation != found.status.observed_generation:
        return _failure(found, near=near) or _UNOBSERVED
    stalled = conditions.get("Stalled")
    return _told(stalled, near=near) if stalled and stalled.status == "True" else ""


def _failure(found: Source, *, near: bool) -> str:
    """Return the message of Ready if it is False; the source may have lost its artifact by that."""
    return next(
        (
            _told(each, near=near)
            for each in found.status.conditions
            if (each.type, each.status) == ("Ready", "False")
        ),
        "",
    )


def _told(condition: Condition, *, near: bool) -> str:
    """Return the message of a condition for a HelmRelease.

    A HelmRelease chooses the Secret of ``spec.chart.spec.verify``, which is in the namespace of the
    source. The message may say whether the Secret exists and what it contains.
    """
    return condition.message if near or condition.reason in _OF_CHARTS else _ELSEWHERE
