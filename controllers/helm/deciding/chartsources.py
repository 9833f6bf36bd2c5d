"""Where the chart comes from, whether it is there, and which version it counts as. Pure.

A tag can be moved, so the version of a chart from a registry gets the first characters of the
artifact's digest: then another content is another version, and is released (helm-controller
``mutateChartWithSourceRevision``).
"""

from dataclasses import dataclass
from typing import Final, Protocol

from controllers.helm.deciding import charttemplate
from crds.helm import HelmRelease
from crds.meta import Artifact, Conditions, ObjectMeta
from toolkit.chart import version
from toolkit.errors import Told, TransientError, WaitingError
from toolkit.objects import ObjectKey

NOT_READY: Final = "SourceNotReady"

_SHOWN: Final = 12
_WITH_DIGESTS: Final = frozenset({"OCIRepository", "ExternalArtifact"})
_UNOBSERVED: Final = "latest generation of object has not been reconciled"
_EMPTY: Final = "does not have an artifact"


class Status(Protocol):
    """What the source tells of itself."""

    @property
    def artifact(self) -> Artifact | None:
        """Return what is stored."""

    @property
    def conditions(self) -> Conditions:
        """Return the conditions."""

    @property
    def observed_generation(self) -> int:
        """Return the generation that the status is of."""


class Source(Protocol):
    """The object whose artifact is the chart."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return namespace, name and generation."""

    @property
    def status(self) -> Status:
        """Return what was stored last."""


class ChartMutateError(TransientError):
    """The revision of the artifact does not fit the version of the chart."""

    default_reason = "ChartMutateError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The version that is released, and the digest of the artifact where it is part of that."""

    version: str
    oci_digest: str = ""


def source(obj: HelmRelease) -> tuple[str, ObjectKey] | None:
    """Return kind and place of the object whose artifact is the chart; None if none is named."""
    if place := charttemplate.key(obj):
        return "HelmChart", place
    ref = obj.spec.chart_ref
    if ref is None:
        return None
    return ref.kind, ObjectKey(ref.namespace or obj.metadata.namespace, ref.name)


def artifact(kind: str, found: Source) -> Artifact:
    """Return the artifact of a source that is ready.

    An ExternalArtifact is written by others, and is ready as soon as it has one.

    Raises:
        WaitingError: the source is not ready.
    """
    stored = found.status.artifact
    why = "" if kind == "ExternalArtifact" else _unready(found)
    if stored is not None and not why:
        return stored
    raise unready(kind, ObjectKey(found.metadata.namespace, found.metadata.name), why or _EMPTY)


def unready(kind: str, place: ObjectKey, why: str = _EMPTY) -> WaitingError:
    """Return the error that says what a source lacks; by default an artifact."""
    return WaitingError(
        f"{kind} '{place}' is not ready: {why}", reason=NOT_READY, told=Told(event="")
    )


def released(chart: str, kind: str, revision: str, *, tracks: bool = True) -> Version:
    """Return the version that a chart of the version ``chart`` is released as.

    ``tracks`` is false under the gate ``DisableChartDigestTracking``: the version stays then, and
    the digest is told all the same.

    Raises:
        ChartMutateError: the revision is of another version, or holds no digest.
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
    """Check a tag that is a version; others say nothing about the chart."""
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


def _unready(found: Source) -> str:
    """Return what a source lacks besides an artifact, as it tells it itself; nothing if nothing."""
    conditions = {each.type: each for each in found.status.conditions}
    if found.metadata.generation != found.status.observed_generation:
        ready = conditions.get("Ready")
        return ready.message if ready and ready.status == "False" else _UNOBSERVED
    stalled = conditions.get("Stalled")
    return stalled.message if stalled and stalled.status == "True" else ""
