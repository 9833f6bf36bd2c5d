"""The cached part of sources and their users: small values, decoded from events.

A watch delivers whole objects; of thousands of them only these values stay in memory. Third parties
write some statuses, and the API server accepts any text as a URL and some invalid times. A value
that cannot be parsed is left empty here, so later code need not check it again.
"""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from crds import HELM_CHART, HELM_RELEASE, KUSTOMIZATION
from crds.kind import Kind
from toolkit.artifact.kinds import KINDS
from toolkit.artifact.store import Owner

SOURCES: Final[tuple[Kind[Any], ...]] = tuple(KINDS.values())
"""Every kind that has artifacts."""


class Offered(Struct, frozen=True, kw_only=True, rename="camel"):
    """``status.artifact``; ``url`` can be split, and ``last_update_time`` is RFC 3339 or empty."""

    digest: str
    revision: str = ""
    path: str = ""
    url: str = ""
    last_update_time: str = ""
    size: int | None = None
    metadata: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The fields of a source that concern its artifacts."""

    owner: Owner
    api_version: str
    uid: str
    revision: int
    """``metadata.resourceVersion``."""
    artifact: Offered | None


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Use:
    """A source that an object works with, and the revisions, or their digests, it is at."""

    source: tuple[str, str, str]
    """Kind, namespace and name."""
    applied: str
    attempted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """An object that works with artifacts."""

    api_version: str
    kind: str
    namespace: str
    name: str
    revision: int
    uses: tuple[Use, ...]


def source(kind: Kind[Any], raw: bytes) -> Source:
    """Read a source object of ``kind``."""
    read = _SOURCE.decode(raw)
    return Source(
        owner=Owner(kind=kind.kind, namespace=read.metadata.namespace, name=read.metadata.name),
        api_version=f"{kind.group}/{kind.version}",
        uid=read.metadata.uid,
        revision=_number(read.metadata.resource_version),
        artifact=_offered(read.status.artifact),
    )


def chart(raw: bytes) -> tuple[Source, Consumer]:
    """Read a HelmChart: a source that is made from another one's artifact."""
    read = _CHART.decode(raw)
    made_from = (read.spec.source_ref.kind, read.metadata.namespace, read.spec.source_ref.name)
    revision = read.status.observed_source_artifact_revision
    use = Use(source=made_from, applied=revision, attempted=revision)
    return source(HELM_CHART, raw), _consumer(HELM_CHART, read.metadata, (use,))


def kustomization(raw: bytes) -> Consumer:
    """Read a Kustomization."""
    read = _KUSTOMIZATION.decode(raw)
    own, status = read.metadata.namespace, read.status
    mounts = [("", read.spec.source_ref)] if read.spec.source_ref else []
    mounts += [(each.path, each) for each in read.spec.source_refs]
    alone = len(mounts) == 1
    uses = tuple(
        Use(
            source=_named(ref.kind, ref.namespace or own, ref.name),
            applied=sys.intern(_part(status.last_applied_revision, path, alone=alone)),
            attempted=sys.intern(_part(status.last_attempted_revision, path, alone=alone)),
        )
        for path, ref in mounts
    )
    return _consumer(KUSTOMIZATION, read.metadata, uses)


def helm_release(raw: bytes) -> Consumer:
    """Decode a HelmRelease: it uses its own HelmChart, or the source in its spec.

    Its revisions are versions of charts, as in HelmCharts. For a chart from a registry it has the
    digest, which is the end of the artifact's revision.
    """
    read = _HELM_RELEASE.decode(raw)
    own, status = read.metadata.namespace, read.status
    namespace, _, name = status.helm_chart.partition("/")
    named = read.spec.chart_ref
    if named is not None:
        source = (named.kind, named.namespace or own, named.name)
    else:
        source = (HELM_CHART.kind, namespace, name)
    deployed = (each for each in status.history if each.status == "deployed")
    released = next(deployed, _Release())
    use = Use(
        source=source,
        applied=released.oci_digest or released.chart_version,
        attempted=status.last_attempted_revision_digest or status.last_attempted_revision,
    )
    return _consumer(HELM_RELEASE, read.metadata, (use,) if source[2] else ())


def _named(kind: str, namespace: str, name: str) -> tuple[str, str, str]:
    """Name a source; a thousand consumers of one keep the same texts."""
    return sys.intern(kind), sys.intern(namespace), sys.intern(name)


def _consumer(kind: Kind[Any], metadata: "_Metadata", uses: tuple[Use, ...]) -> Consumer:
    return Consumer(
        api_version=sys.intern(f"{kind.group}/{kind.version}"),
        kind=kind.kind,
        namespace=sys.intern(metadata.namespace),
        name=sys.intern(metadata.name),
        revision=_number(metadata.resource_version),
        uses=uses,
    )


def _part(revision: str, path: str, *, alone: bool) -> str:
    """Return the part of one source in a revision of several sources.

    Such a revision is the root's, and ``<path>=<revision>`` of the others, comma-separated
    (``controllers.kustomize.sources.Sources.revision``).
    """
    if alone:
        return revision
    mark, parts = f"{path}=", revision.split(", ")
    if not path:
        return parts[0]
    return next((part.removeprefix(mark) for part in parts if part.startswith(mark)), "")


def _offered(artifact: Offered | None) -> Offered | None:
    if artifact is None:
        return None
    return msgspec.structs.replace(
        artifact, url=_url(artifact.url), last_update_time=_time(artifact.last_update_time)
    )


def _url(text: str) -> str:
    """Return a URL, or empty if it is invalid: ``http://[`` cannot be parsed."""
    try:
        urlsplit(text)
    except ValueError:
        return ""
    return text


def _time(text: str) -> str:
    """Return a time in the form that clients in Go can parse.

    The API server's ``date-time`` also accepts ``2026-01-01t00:00:00zTgarbage``.
    """
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdecimal() else 0


class _Metadata(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _SourceStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    artifact: Offered | None = None


class _Source(Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: _Metadata
    status: _SourceStatus = _SourceStatus()


class _Reference(Struct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""


class _ChartSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    source_ref: _Reference = _Reference()


class _ChartStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    observed_source_artifact_revision: str = ""


class _Chart(Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: _Metadata
    spec: _ChartSpec = _ChartSpec()
    status: _ChartStatus = _ChartStatus()


class _KustomizationSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    source_ref: _Reference | None = None
    source_refs: tuple[_Reference, ...] = ()


class _KustomizationStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    last_applied_revision: str = ""
    last_attempted_revision: str = ""


class _Kustomization(Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: _Metadata
    spec: _KustomizationSpec = _KustomizationSpec()
    status: _KustomizationStatus = _KustomizationStatus()


class _HelmReleaseSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    chart_ref: _Reference | None = None


class _Release(Struct, frozen=True, kw_only=True, rename="camel"):
    chart_version: str = ""
    oci_digest: str = ""
    status: str = ""


class _HelmReleaseStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    helm_chart: str = ""
    history: tuple[_Release, ...] = ()
    last_attempted_revision: str = ""
    last_attempted_revision_digest: str = ""


class _HelmRelease(Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: _Metadata
    spec: _HelmReleaseSpec = _HelmReleaseSpec()
    status: _HelmReleaseStatus = _HelmReleaseStatus()


_SOURCE: Final = msgspec.json.Decoder(_Source)
_CHART: Final = msgspec.json.Decoder(_Chart)
_KUSTOMIZATION: Final = msgspec.json.Decoder(_Kustomization)
_HELM_RELEASE: Final = msgspec.json.Decoder(_HelmRelease)
