"""The facts for claims of provenance: appliers, their accounts, sources, artifacts.

Of a source only its artifacts count, which record their origin; its spec describes the next fetch.

Facts come from caches; ``fresh`` reads them from the API server, because a cache may lag behind the
controller that has just written. On the other hand, an apply that began a moment ago continues with
its artifact: replaced artifacts of each source count for some minutes, unless they were withdrawn.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from crds import (
    BUCKET,
    EXTERNAL_ARTIFACT,
    GIT_REPOSITORY,
    HELM_CHART,
    HELM_RELEASE,
    KUSTOMIZATION,
    OCI_REPOSITORY,
)
from crds.helm import chart_name
from crds.helm_parts import ChartReference, ChartTemplate
from crds.kustomize import MountedSourceReference, SourceReference
from crds.meta import Artifact, ObjectMeta
from toolkit.kube import rbac
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef
from toolkit.policy import claims
from toolkit.policy.claims import Part, Standing
from webhooks.services import Cache, Services

LATE_SECONDS: Final = 600.0
"""How long a replaced artifact counts; an apply hardly takes longer."""
_LATE: Final = 8
_SOURCES: Final = {
    kind.kind: GroupVersionKind(*kind.gvk)
    for kind in (GIT_REPOSITORY, OCI_REPOSITORY, BUCKET, EXTERNAL_ARTIFACT, HELM_CHART)
}
PERMISSIONS: Final = (
    rbac.Rule(
        groups=(KUSTOMIZATION.group,),
        resources=(KUSTOMIZATION.plural,),
        verbs=("get", "list", "watch"),
    ),
    rbac.Rule(
        groups=(HELM_RELEASE.group,),
        resources=(HELM_RELEASE.plural,),
        verbs=("get", "list", "watch"),
    ),
    rbac.Rule(
        groups=(GIT_REPOSITORY.group,),
        resources=tuple(
            kind.plural
            for kind in (GIT_REPOSITORY, OCI_REPOSITORY, BUCKET, EXTERNAL_ARTIFACT, HELM_CHART)
        ),
        verbs=("get", "list", "watch"),
    ),
)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    service_account_name: str = ""
    kube_config: Any = None
    path: str = ""


class _KustomizationSpec(_Spec, frozen=True, rename="camel"):
    source_ref: SourceReference | None = None
    source_refs: list[MountedSourceReference] = []


class _Kustomization(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _KustomizationSpec = _KustomizationSpec()

    @property
    def sources(self) -> Iterator[tuple[str, str, ObjectKey]]:
        """Yield mount point, kind and place, in the order of the spec (``KustomizationSpec``)."""
        own, root = self.metadata.namespace, self.spec.source_ref
        mounts = {"": root} if root else {}
        mounts |= {each.path: each.source for each in self.spec.source_refs}
        for path, ref in mounts.items():
            yield path, ref.kind, ObjectKey(ref.namespace or own, ref.name)


class _HelmReleaseSpec(_Spec, frozen=True, rename="camel"):
    chart: ChartTemplate | None = None
    chart_ref: ChartReference | None = None


class _HelmReleaseStatus(msgspec.Struct, frozen=True, rename="camel"):
    helm_chart: str = ""


class _HelmRelease(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _HelmReleaseSpec = _HelmReleaseSpec()
    status: _HelmReleaseStatus = _HelmReleaseStatus()

    @property
    def sources(self) -> Iterator[tuple[str, str, ObjectKey]]:
        """Yield kind and place of the chart: of the HelmChart that is made for it, if it has one.

        Its namespace is the controller's (``controllers.helm.deciding.charttemplate``).
        """
        own, told = self.metadata, self.status.helm_chart
        if template := self.spec.chart:
            namespace = template.spec.source_ref.namespace or own.namespace
            yield (
                "",
                HELM_CHART.kind,
                ObjectKey(namespace, chart_name(namespace=own.namespace, name=own.name, told=told)),
            )
        elif ref := self.spec.chart_ref:
            yield "", ref.kind, ObjectKey(ref.namespace or own.namespace, ref.name)


_Applier = _Kustomization | _HelmRelease
_VIEWS: Final[Mapping[str, type[_Applier]]] = MappingProxyType(
    {KUSTOMIZATION.kind: _Kustomization, HELM_RELEASE.kind: _HelmRelease}
)


class _Status(msgspec.Struct, frozen=True):
    artifact: Artifact | None = None


class _Source(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_decode_source: Final = msgspec.json.Decoder(_Source).decode


class Standings:
    """Returns the facts about an applier; create it in ``Row.make``.

    It watches nothing until there is a policy of the kind ``after``, which its user watches.
    """

    def __init__(self, services: Services, *, after: GroupVersionKind) -> None:
        self._client = services.client
        self._namespace = services.namespace
        self._account = services.options.default_service_account
        self._appliers: dict[str, Cache[_Applier]] = {
            kind: services.watch(
                claims.APPLIERS[kind], decode=msgspec.json.Decoder(view).decode, after=after
            )
            for kind, view in _VIEWS.items()
        }
        self._sources: dict[str, _Sources] = {
            kind: _Sources(services.watch(gvk, decode=_decode_source, after=after))
            for kind, gvk in _SOURCES.items()
        }

    async def of(self, applier: ObjectRef, *, fresh: bool = False) -> Standing | None:
        """Return the facts about an applier; None if it does not exist.

        Raises:
            ApiError: the API server cannot be read.
        """
        kind = applier.gvk.kind
        found = self._appliers[kind].get(applier.key)
        if fresh:
            found = await self._read(applier.gvk, applier.key, _VIEWS[kind])
        if found is None:
            return None
        own = found.metadata.namespace
        parts = [
            await self._part(path, source, place, fresh=fresh)
            for path, source, place in found.sources
        ]
        return Standing(
            applier=applier,
            account=claims.account(
                own,
                found.spec.service_account_name,
                default=self._account,
                installed=ObjectKey(self._namespace, claims.ACCOUNTS[kind]),
            ),
            remote=found.spec.kube_config is not None,
            directory=found.spec.path,
            parts=tuple(parts),
        )

    async def _part(self, path: str, kind: str, key: ObjectKey, *, fresh: bool) -> Part:
        known = self._sources[kind]
        artifacts = known.artifacts(key)
        if fresh:
            source = await self._read(_SOURCES[kind], key, _Source)
            present = source.status.artifact if source else None
            artifacts = (present, *artifacts) if present else ()
        return Part(
            path=path,
            source=ObjectRef(_SOURCES[kind], key.namespace, key.name),
            artifacts=artifacts,
        )

    async def _read(
        self, gvk: GroupVersionKind, key: ObjectKey, view: Callable[..., Any]
    ) -> Any | None:
        try:
            found: Json = await self._client.get(gvk, key.name, key.namespace)
        except NotFoundError:
            return None
        return msgspec.convert(found, view)


@dataclass(frozen=True, slots=True)
class _Replaced:
    artifact: Artifact
    until: float


class _Sources:
    """The sources of one kind, and the artifacts that they had until lately."""

    def __init__(self, cache: Cache[_Source]) -> None:
        self.cache = cache
        self._late: dict[ObjectKey, deque[_Replaced]] = {}
        cache.subscribe(self._saw)

    def artifacts(self, key: ObjectKey) -> tuple[Artifact, ...]:
        """Return the present artifact and late ones; none if the present one was withdrawn."""
        source = self.cache.get(key)
        if source is None or source.status.artifact is None:
            return ()
        late = (each for each in self._late.get(key, ()) if each.until > _now())
        return (source.status.artifact, *(each.artifact for each in late))

    def _saw(self, change: Change[_Source]) -> None:
        before, after = (
            each.status.artifact if each else None for each in (change.old, change.new)
        )
        if after is None:
            self._late.pop(change.key, None)
        elif before is not None and _content(before) != _content(after):
            late = self._late.setdefault(change.key, deque(maxlen=_LATE))
            late.append(_Replaced(before, _now() + LATE_SECONDS))


def _content(artifact: Artifact) -> tuple[object, ...]:
    return artifact.revision, artifact.digest, artifact.metadata


def _now() -> float:
    return asyncio.get_running_loop().time()
