"""Which artifacts a Kustomization is built from, and whether it may use them.

``spec.sourceRef`` is the root of the build; ``spec.sourceRefs`` are mounted at their paths. The
revision of a composed build names every part, so a change of any part is a new revision.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

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
    """The part of a source object that consumers may rely on."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return namespace, name and the like."""

    @property
    def status(self) -> _Status:
        """Return what was stored last."""


class SourcePolicy(Protocol):
    """Which sources may be used (``controllers.sourcepolicies``)."""

    def check(self, obj: SourceView) -> object:
        """Let a source be used, or raise ``AccessDeniedError``."""

    def check_artifact(self, obj: SourceView, metadata: Mapping[str, str]) -> object:
        """Let an artifact with these metadata be used, or raise ``AccessDeniedError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One artifact and the directory of the build tree where it appears; ``""`` is the root."""

    path: str
    ref: ObjectRef
    artifact: Artifact

    @property
    def owner(self) -> Owner:
        """Return whose artifact it must be."""
        return Owner(kind=self.ref.gvk.kind, namespace=self.ref.namespace, name=self.ref.name)

    @property
    def verified(self) -> str:
        """Return who signed this artifact, in words; empty if nobody had to."""
        return signer(self.ref, self.artifact)


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
        return self._told(lambda artifact: artifact.revision)

    @property
    def origin_revision(self) -> str:
        """Return the upstream revision that a source passed on in its artifact's metadata."""
        metadata = self.primary.artifact.metadata or {}
        return str(metadata.get("org.opencontainers.image.revision", ""))

    @property
    def digest(self) -> str:
        """Return the digest to report, of each part as ``revision`` has them."""
        return self._told(lambda artifact: artifact.digest)

    @property
    def origin(self) -> Origin:
        """Return what writes that come from here claim."""
        # one part that nobody vouches for may shape any object of a composed build
        vouched = all(mount.verified for mount in self.mounts)
        return Origin(
            source=self.primary.ref,
            revision=self.revision,
            digest=self.digest,
            verified=self.primary.verified if vouched else "",
        )

    @property
    def digests(self) -> tuple[str, ...]:
        """Return what identifies the content: each mount's path and digest."""
        return tuple(f"{mount.path}={mount.artifact.digest}" for mount in self.mounts)

    def _told(self, part: Callable[[Artifact], str]) -> str:
        if len(self.mounts) == 1:
            return part(self.primary.artifact)
        return ", ".join(
            f"{mount.path}={part(mount.artifact)}" if mount.path else part(mount.artifact)
            for mount in self.mounts
        )


class SourceReader:
    """Looks sources up in the informers of their kinds."""

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
            StalledError: a source kind is not served.
            AccessDeniedError: a reference crosses namespaces and may not, or a policy forbids the
                source, which may be suspended or made by a third party.
            WaitingError: a source does not exist or has no artifact yet, or policies are not known.
        """
        mounts = tuple(
            Mount(path=path, ref=ref, artifact=self._artifact(obj, ref))
            for path, ref in self.references(obj)
        )
        return Sources(mounts=mounts)

    def require_allowed(self, sources: Sources) -> None:
        """Let artifacts be used that are not those of the sources' status.

        Raises:
            AccessDeniedError: a policy forbids where one was fetched from, or who signed it.
        """
        for mount in sources.mounts:
            key = ObjectKey(mount.ref.namespace, mount.ref.name)
            source = self._informers[mount.ref.gvk.kind][1].get(key)
            if source is not None:
                self._sources.check_artifact(source, mount.artifact.metadata)

    def references(self, obj: Kustomization) -> Iterator[tuple[str, ObjectRef]]:
        """Yield mount path and source of every reference of the spec."""
        own = obj.metadata.namespace
        for path, ref in obj.spec.mounts.items():
            yield path, self._ref(ref.kind, ref.namespace or own, ref.name)

    def current(self, obj: Kustomization, sources: Sources, other: object) -> bool:
        """Tell whether a Kustomization with the sources of ``obj`` has applied them as they are.

        What is made from anything else is current.
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
                f"{ref.gvk.kind} '{ref.key}' not found",
                reason="ArtifactFailed",
                retry_after=obj.spec.retry_seconds,
                told=Told(event=""),
            )
        if source.status.artifact is None:
            raise WaitingError(
                "Source artifact not found",
                reason="ArtifactFailed",
                told=Told(delay=True, event=""),
            )
        self._sources.check(source)
        self._sources.check_artifact(source, source.status.artifact.metadata)
        return source.status.artifact
