"""The artifacts of a Kustomization's build, and whether the Kustomization may use them.

``spec.sourceRef`` is the root of the build tree; ``spec.sourceRefs`` are mounted at their paths.
The revision of a build with several sources contains the revision of each, so a change of any
source is a new revision.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from controllers import originrevision
from controllers.applying import applier
from controllers.applying.identity import Origin, signer
from crds.kustomize import Kustomization
from crds.meta import Artifact, ObjectMeta
from toolkit.artifact.store import Owner
from toolkit.errors import StalledError, Told, WaitingError
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References


class _Status(Protocol):
    @property
    def artifact(self) -> Artifact | None: ...


class SourceView(Protocol):
    """The fields of a source that its users may read."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return the metadata."""

    @property
    def status(self) -> _Status:
        """Return the status, which has the stored artifact."""


class SourcePolicy(Protocol):
    """Decides which sources may be used (``controllers.sourcepolicies``)."""

    def check(self, obj: SourceView) -> object:
        """Raise ``AccessDeniedError`` if a policy forbids the source."""

    def check_artifact(self, obj: SourceView, metadata: Mapping[str, str]) -> object:
        """Raise ``AccessDeniedError`` if a policy forbids an artifact with these metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """An artifact, and its directory in the build tree; ``""`` is the root."""

    path: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a build."""

    mounts: tuple[Mount, ...]

    @property
    def primary(self) -> Mount:
        """Return the source at the root, or the first one if there is none at the root."""
        return next((mount for mount in self.mounts if not mount.path), self.mounts[0])

    @property
    def revision(self) -> str:
        """Return the revision to report: that of the root, and ``path=revision`` of the others."""
        return self._told(lambda artifact: artifact.revision)

    @property
    def origin_revision(self) -> str:
        """Return the upstream revision from the metadata of the primary artifact, or empty."""
        return originrevision.of(self.primary.artifact)

    @property
    def digest(self) -> str:
        """Return the digest to report, in the form of ``revision``."""
        return self._told(lambda artifact: artifact.digest)

    @property
    def origin(self) -> Origin:
        """Return the provenance of objects that are built from these sources."""
        # An unsigned source can change any object of a build with several sources.
        vouched = all(mount.verified for mount in self.mounts)
        return Origin(
            source=self.primary.ref,
            revision=self.revision,
            digest=self.digest,
            verified=self.primary.verified if vouched else "",
        )

    @property
    def digests(self) -> tuple[str, ...]:
        """Return ``path=digest`` for each mount, which identifies the content."""
        return tuple(f"{mount.path}={mount.artifact.digest}" for mount in self.mounts)

    def _told(self, part: Callable[[Artifact], str]) -> str:
        if len(self.mounts) == 1:
            return part(self.primary.artifact)
        return ", ".join(
            f"{mount.path}={part(mount.artifact)}" if mount.path else part(mount.artifact)
            for mount in self.mounts
        )


class SourceReader:
    """Reads sources from the informers, and enforces ReferenceGrants and SourcePolicies."""

    def __init__(
        self,
        informers: Mapping[str, tuple[GroupVersionKind, Informer[SourceView]]],
        *,
        policy: References,
        sources: SourcePolicy,
    ) -> None:
        self._informers = informers
        self._policy = policy
        self._sources = sources

    def resolve(self, obj: Kustomization) -> Sources:
        """Return the artifacts to build from.

        Raises:
            StalledError: this process does not watch the kind of a source.
            AccessDeniedError: no grant allows a reference to another namespace, or a policy forbids
                a source, even if it is suspended or made by a third party.
            WaitingError: a source does not exist or has no artifact yet, or policies have not been
                listed yet.
        """
        mounts = tuple(
            Mount(path=path, ref=ref, artifact=self._artifact(obj, ref))
            for path, ref in self.references(obj)
        )
        return Sources(mounts=mounts)

    def require_allowed(self, sources: Sources) -> None:
        """Require that policies allow artifacts that are not in the status of the sources.

        Raises:
            AccessDeniedError: a policy forbids the origin or the signer of an artifact.
        """
        for mount in sources.mounts:
            key = ObjectKey(mount.ref.namespace, mount.ref.name)
            source = self._informers[mount.ref.gvk.kind][1].get(key)
            if source is not None:
                self._sources.check_artifact(source, mount.artifact.metadata)

    def references(self, obj: Kustomization) -> Iterator[tuple[str, ObjectRef]]:
        """Yield mount path and source of every source reference in the spec."""
        own = obj.metadata.namespace
        for path, ref in obj.spec.mounts.items():
            yield path, self._ref(ref.kind, ref.namespace or own, ref.name)

    def current(self, obj: Kustomization, sources: Sources, other: object) -> bool:
        """Tell whether ``other`` has applied the current revision of the sources of ``obj``.

        An object with other sources counts as current.
        """
        if not isinstance(other, Kustomization):
            return True
        if list(self.references(obj)) != list(self.references(other)):
            return True
        return other.status.last_applied_revision == sources.revision

    def _ref(self, kind: str, namespace: str, name: str) -> ObjectRef:
        if kind not in self._informers:
            served = ", ".join(sorted(self._informers))
            raise StalledError(
                f"source kind '{kind}' is not supported here; use one of: {served}",
                reason="ArtifactFailed",
            )
        return ObjectRef(self._informers[kind][0], namespace, name)

    def _artifact(self, obj: Kustomization, ref: ObjectRef) -> Artifact:
        self._policy.require(applier.ref_to(obj), ref)
        source = self._informers[ref.gvk.kind][1].get(ObjectKey(ref.namespace, ref.name))
        if source is None:
            raise WaitingError(
                f"{ref.gvk.kind} '{ref.key}' not found: create it, or correct {_field(obj, ref)}",
                reason="ArtifactFailed",
                retry_after=obj.spec.retry_seconds,
                told=Told(event=""),
            )
        if source.status.artifact is None:
            raise WaitingError(
                f"Source artifact not found: see the condition Ready of {ref.gvk.kind} '{ref.key}'",
                reason="ArtifactFailed",
                told=Told(delay=True, event=""),
            )
        self._sources.check(source)
        self._sources.check_artifact(source, source.status.artifact.metadata)
        return source.status.artifact


def _field(obj: Kustomization, ref: ObjectRef) -> str:
    """Return the field that refers to a source."""
    root = obj.spec.source_ref
    own = obj.metadata.namespace
    first = root and (root.kind, root.namespace or own, root.name)
    return (
        "spec.sourceRef" if first == (ref.gvk.kind, ref.namespace, ref.name) else "spec.sourceRefs"
    )
