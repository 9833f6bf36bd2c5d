"""The artifacts of a generator's sources, and whether the generator may use them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controllers import originrevision
from controllers.source.source import Policy
from crds import ARTIFACT_GENERATOR, extensions
from crds.extensions import ArtifactGenerator
from crds.meta import Artifact
from crds.source_external import ExternalArtifact
from toolkit.artifact.store import Owner
from toolkit.errors import StalledError, WaitingError
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References

KIND: Final = GroupVersionKind(*ARTIFACT_GENERATOR.gvk)
ORIGIN: Final = originrevision.ANNOTATION
"""Artifact metadata: the upstream revision, under the key that images use."""

Lookup = Callable[[ObjectKey], ArtifactGenerator | None]
Informers = Mapping[str, Informer[Any]]
"""The informers of the kinds of sources, by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A source and its current artifact."""

    alias: str
    ref: ObjectRef
    artifact: Artifact

    @property
    def owner(self) -> Owner:
        """Return the source as the owner that the artifact must have."""
        return Owner(kind=self.ref.gvk.kind, namespace=self.ref.namespace, name=self.ref.name)

    @property
    def origin(self) -> str:
        """Return the upstream revision; empty if the metadata have none."""
        own = self.artifact.revision if self.ref.gvk.kind == "GitRepository" else ""
        return self.artifact.metadata.get(ORIGIN, own)


class InputReader:
    """Reads the sources of generators from informers, and enforces grants and SourcePolicies."""

    def __init__(
        self, informers: Informers, generators: Lookup, *, policy: References, sources: Policy
    ) -> None:
        self._informers = informers
        self._generators = generators
        self._policy = policy
        self._sources = sources

    def resolve(self, obj: ArtifactGenerator) -> dict[str, Input]:
        """Return the sources by alias.

        Raises:
            StalledError: this process does not watch a kind, or a source is made from the
                generator's own artifacts.
            AccessDeniedError: no grant allows a reference to another namespace, or a policy forbids
                a source.
            WaitingError: a source does not exist or has no artifact yet, or grants have not been
                listed yet.
        """
        own = ObjectRef(KIND, obj.metadata.namespace, obj.metadata.name)
        references = dict(self.references(obj))
        for ref in references.values():
            self._policy.require(own, ref)
        self._refuse_circle(own, references.values())
        return {
            alias: Input(alias=alias, ref=ref, artifact=self._artifact(ref))
            for alias, ref in references.items()
        }

    def references(self, obj: ArtifactGenerator) -> Iterator[tuple[str, ObjectRef]]:
        """Yield alias and source of every entry of ``spec.sources``.

        Raises:
            StalledError: this process does not watch a kind.
        """
        for source in obj.spec.sources:
            informer = self._informers.get(source.kind)
            if informer is None:
                raise StalledError(
                    f"source kind '{source.kind}' is not supported here; use one of: "
                    f"{', '.join(sorted(self._informers))}",
                    reason="ValidationFailed",
                )
            namespace = source.namespace or obj.metadata.namespace
            yield source.alias, ObjectRef(informer.gvk, namespace, source.name)

    def _artifact(self, ref: ObjectRef) -> Artifact:
        found = self._informers[ref.gvk.kind].get(ref.key)
        if found is None:
            raise WaitingError(
                f"{ref.gvk.kind} '{ref.key}' not found: create it, or correct spec.sources",
                reason="SourceFetchFailed",
            )
        artifact: Artifact | None = found.status.artifact
        if artifact is None:
            raise WaitingError(
                f"{ref.gvk.kind} '{ref.key}' has no artifact yet", reason="SourceFetchFailed"
            )
        self._sources.check(found)
        self._sources.check_artifact(found, artifact.metadata)
        return artifact

    def _refuse_circle(self, own: ObjectRef, references: Iterable[ObjectRef]) -> None:
        """Refuse a source made from the generator's own artifacts: it would never stop building."""
        seen: set[ObjectRef] = set()
        waiting = list(references)
        while waiting:
            ref = waiting.pop()
            maker = None if ref in seen else self._maker(ref)
            seen.add(ref)
            if maker == own.key:
                raise StalledError(
                    f"{ref.gvk.kind} '{ref.key}' is made from this generator's own artifacts",
                    reason="ValidationFailed",
                )
            other = self._generators(maker) if maker else None
            if other is not None:
                waiting += [ref for _, ref in self.references(other)]

    def _maker(self, ref: ObjectRef) -> ObjectKey | None:
        """Return the generator that makes an ExternalArtifact, or None."""
        found = self._informers[ref.gvk.kind].get(ref.key)
        return maker_of(found) if isinstance(found, ExternalArtifact) else None


def maker_of(obj: ExternalArtifact) -> ObjectKey | None:
    """Return the generator in ``spec.sourceRef`` of an ExternalArtifact, or None."""
    source = obj.spec.source_ref
    group = GroupVersionKind.parse(source.api_version, source.kind).group if source else ""
    if source is None or (group, source.kind) != (extensions.GROUP, KIND.kind):
        return None
    return ObjectKey(source.namespace or obj.metadata.namespace, source.name)


def digest(inputs: Iterable[Input]) -> str:
    """Return the digest of the state of the sources, ``sha256:<hex>``."""
    lines = sorted(
        " ".join((each.alias, str(each.ref), each.artifact.revision, each.artifact.digest))
        + f" {each.origin}\n"
        for each in inputs
    )
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
