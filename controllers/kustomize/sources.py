"""Which artifacts a Kustomization is built from, and whether it may use them.

``spec.sourceRef`` is the root of the build; ``spec.sourceRefs`` are mounted at their paths. The
revision of a composed build names every part, so a change of any part is a new revision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from crds.kustomize import Kustomization
from crds.meta import VERIFIED, Artifact, ObjectMeta
from toolkit.errors import StalledError, WaitingError
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import require_reference


class _Status(Protocol):
    @property
    def artifact(self) -> Artifact | None: ...


class SourceView(Protocol):
    """The part of a source object that consumers may rely on."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return namespace, name and the like."""

    @property
    def status(self) -> _Status:
        """Return what was stored last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One artifact and the directory of the build tree where it appears; ``""`` is the root."""

    path: str
    ref: ObjectRef
    artifact: Artifact

    @property
    def verified(self) -> str:
        """Return who signed this artifact, in words; empty if nobody had to.

        The condition SourceVerified tells of the latest revision, which need not be this one.
        """
        return (self.artifact.metadata or {}).get(VERIFIED, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Everything a build reads."""

    mounts: tuple[Mount, ...]

    @property
    def primary(self) -> Mount:
        """Return the source at the root, or the first one where none is."""
        return next((mount for mount in self.mounts if not mount.path), self.mounts[0])

    @property
    def revision(self) -> str:
        """Return the revision to report: the root's, then ``path=revision`` of the others."""
        if len(self.mounts) == 1:
            return self.primary.artifact.revision
        return ", ".join(
            f"{mount.path}={mount.artifact.revision}" if mount.path else mount.artifact.revision
            for mount in self.mounts
        )

    @property
    def origin_revision(self) -> str:
        """Return the upstream revision that a source passed on in its artifact's metadata."""
        metadata = self.primary.artifact.metadata or {}
        return str(metadata.get("org.opencontainers.image.revision", ""))

    @property
    def digests(self) -> tuple[str, ...]:
        """Return what identifies the content: each mount's path and digest."""
        return tuple(f"{mount.path}={mount.artifact.digest}" for mount in self.mounts)


class SourceReader:
    """Looks sources up in the informers of their kinds."""

    def __init__(
        self,
        informers: Mapping[str, tuple[GroupVersionKind, Informer[SourceView]]],
        *,
        cross_namespace: bool,
    ) -> None:
        self._informers = informers
        self._cross_namespace = cross_namespace

    def resolve(self, obj: Kustomization) -> Sources:
        """Return the artifacts to build from.

        Raises:
            StalledError: a source kind is not served.
            AccessDeniedError: a reference crosses namespaces and may not.
            WaitingError: a source does not exist or has no artifact yet.
        """
        mounts = tuple(
            Mount(path=path, ref=ref, artifact=self._artifact(obj, ref))
            for path, ref in self.references(obj)
        )
        return Sources(mounts=mounts)

    def references(self, obj: Kustomization) -> Iterator[tuple[str, ObjectRef]]:
        """Yield mount path and source of every reference of the spec."""
        own = obj.metadata.namespace
        for path, ref in obj.spec.mounts.items():
            yield path, self._ref(ref.kind, ref.namespace or own, ref.name)

    def _ref(self, kind: str, namespace: str, name: str) -> ObjectRef:
        if kind not in self._informers:
            served = ", ".join(sorted(self._informers))
            raise StalledError(
                f"source kind '{kind}' is not supported here; use one of: {served}",
                reason="ArtifactFailed",
            )
        return ObjectRef(self._informers[kind][0], namespace, name)

    def _artifact(self, obj: Kustomization, ref: ObjectRef) -> Artifact:
        holder = ObjectRef(
            GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
            obj.metadata.namespace,
            obj.metadata.name,
        )
        require_reference(holder, ref, cross_namespace=self._cross_namespace)
        source = self._informers[ref.gvk.kind][1].get(ObjectKey(ref.namespace, ref.name))
        if source is None:
            raise WaitingError(
                f"{ref.gvk.kind} '{ref.key}' not found",
                reason="ArtifactFailed",
                retry_after=obj.spec.retry_seconds,
            )
        if source.status.artifact is None:
            raise WaitingError(
                "Source is not ready, artifact not found, retrying in 30s", reason="ArtifactFailed"
            )
        return source.status.artifact
