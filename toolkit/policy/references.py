"""Decide whether an object in one namespace may refer to an object in another.

References are denied by default; a ReferenceGrant in the namespace of the target allows them. Pure:
the caller gathers, this module decides, at admission and again before an object is used. The answer
never depends on whether the target exists, so a denial discloses nothing about other namespaces.

``REFERENCES`` lists every field of every kind that may name another namespace and is decided here.
``OTHERS`` lists every other field with a namespace, with the reason why it needs no grant.
``toolkit.policy.remedies`` has the grants to propose after a denial.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from crds.policy_referencegrant import EVERY, ReferenceGrant
from toolkit.errors import AccessDeniedError
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind, ObjectRef, gvk_of
from toolkit.policy import fieldpaths

Lookup = Callable[[str], Iterable[ReferenceGrant]]
"""Returns the grants of a namespace; ``toolkit.policy.grants.Grants`` is one."""

GroupKind = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field that refers to an object: its path in the holder, and the kind of the target.

    - ``[]`` in the path means each element of a list.
    - With an empty ``kind`` the reference names its kind itself. The group is fixed, whatever
      ``apiVersion`` says. ``also`` has the other kinds that the reference may name.
    - ``reads`` names a field of the reference. Only references with that field see more of the
      target than its readiness, and need a grant.
    - ``consents``: the target may allow the reference itself. Then only the reconciler, which reads
      the target, requires a grant.
    """

    holder: GroupKind
    path: str
    group: str
    kind: str = ""
    reads: str = ""
    also: tuple[GroupKind, ...] = ()
    consents: bool = False

    def meant(self, value: Mapping[str, Any]) -> GroupKind:
        """Return group and kind of the target of a reference."""
        named = str(value.get("kind") or "")
        other = next((each for each in self.also if each[1] == named), None)
        return other or (self.group, self.kind or named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """One field that holds a namespace and is not a reference to decide on."""

    holder: GroupKind
    path: str
    why: str


_SOURCE: Final = "source.toolkit.fluxcd.io"
_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
_HELM: Final = "helm.toolkit.fluxcd.io"
_POLICY: Final = "policy.penstock.dev"
_KUSTOMIZATION: Final = (_KUSTOMIZE, "Kustomization")
_HELM_RELEASE: Final = (_HELM, "HelmRelease")
_GENERATOR: Final = ("source.extensions.fluxcd.io", "ArtifactGenerator")
_IMAGE: Final = "image.toolkit.fluxcd.io"
_AUTOMATION: Final = (_IMAGE, "ImageUpdateAutomation")
_NOTIFICATION: Final = "notification.toolkit.fluxcd.io"
_OPERATOR: Final = "fluxcd.controlplane.io"
_EMITTING: Final = (
    _KUSTOMIZATION,
    _HELM_RELEASE,
    _GENERATOR,
    *((_IMAGE, kind) for kind in ("ImageRepository", "ImagePolicy", "ImageUpdateAutomation")),
    *((_OPERATOR, kind) for kind in ("FluxInstance", "ResourceSet", "ResourceSetInputProvider")),
)
"""Kinds of other groups than that of sources which events are about."""

REFERENCES: Final = (
    # The sources of a Kustomization.
    Field(holder=_KUSTOMIZATION, path="spec.sourceRef", group=_SOURCE),
    Field(holder=_KUSTOMIZATION, path="spec.sourceRefs[]", group=_SOURCE),
    # The dependencies of a Kustomization. Only a ready expression reads fields of the dependency.
    Field(
        holder=_KUSTOMIZATION,
        path="spec.dependsOn[]",
        group=_KUSTOMIZE,
        kind="Kustomization",
        also=(_HELM_RELEASE,),
        reads="readyExpr",
    ),
    # The source of a HelmRelease's chart: the HelmChart is created in its namespace.
    Field(holder=_HELM_RELEASE, path="spec.chart.spec.sourceRef", group=_SOURCE),
    Field(holder=_HELM_RELEASE, path="spec.chartRef", group=_SOURCE),
    # The dependencies of a HelmRelease.
    Field(
        holder=_HELM_RELEASE,
        path="spec.dependsOn[]",
        group=_HELM,
        kind="HelmRelease",
        also=(_KUSTOMIZATION,),
        reads="readyExpr",
    ),
    # The sources of an ArtifactGenerator.
    Field(holder=_GENERATOR, path="spec.sources[]", group=_SOURCE),
    # Which tags to choose from; the repository's accessFrom may allow that, too.
    Field(
        holder=(_IMAGE, "ImagePolicy"),
        path="spec.imageRepositoryRef",
        group=_IMAGE,
        kind="ImageRepository",
        consents=True,
    ),
    # The repository to which images are written, with the credentials of that source.
    Field(holder=_AUTOMATION, path="spec.sourceRef", group=_SOURCE, kind="GitRepository"),
    # The objects whose events are sent, and the objects that a Receiver reconciles.
    Field(
        holder=(_NOTIFICATION, "Alert"),
        path="spec.eventSources[]",
        group=_SOURCE,
        also=_EMITTING,
    ),
    Field(
        holder=(_NOTIFICATION, "Receiver"),
        path="spec.resources[]",
        group=_SOURCE,
        also=_EMITTING,
    ),
)

HOLDERS: Final = frozenset(field.holder for field in REFERENCES)
"""Kinds whose objects refer to others."""

_BY_ACCOUNT: Final = "the rights of the account that applies are the limit"
_SELECTS: Final = "selects among the objects of the build"
_TOLD: Final = "tells what was done; nothing is looked up by it"
_FLAG: Final = "it is a flag and holds no namespace"
_POSTED: Final = "spec.postRenderers[].kustomize"

OTHERS: Final = (
    Other(holder=_KUSTOMIZATION, path="spec.targetNamespace", why=_BY_ACCOUNT),
    Other(holder=_KUSTOMIZATION, path="spec.healthChecks[].namespace", why=_BY_ACCOUNT),
    Other(holder=_KUSTOMIZATION, path="spec.patches[].target.namespace", why=_SELECTS),
    Other(holder=_KUSTOMIZATION, path="spec.patchesJson6902[].target.namespace", why=_SELECTS),
    Other(holder=_KUSTOMIZATION, path="spec.ignore[].target.namespace", why=_SELECTS),
    Other(holder=_KUSTOMIZATION, path="status.snapshot.entries[].namespace", why=_TOLD),
    Other(holder=_HELM_RELEASE, path="spec.targetNamespace", why=_BY_ACCOUNT),
    Other(holder=_HELM_RELEASE, path="spec.storageNamespace", why=_BY_ACCOUNT),
    Other(holder=_HELM_RELEASE, path="spec.install.createNamespace", why=_FLAG),
    Other(holder=_HELM_RELEASE, path="spec.driftDetection.ignore[].target.namespace", why=_SELECTS),
    Other(holder=_HELM_RELEASE, path=f"{_POSTED}.patches[].target.namespace", why=_SELECTS),
    Other(holder=_HELM_RELEASE, path=f"{_POSTED}.patchesJson6902[].target.namespace", why=_SELECTS),
    Other(holder=_HELM_RELEASE, path="status.storageNamespace", why=_TOLD),
    Other(holder=_HELM_RELEASE, path="status.history[].namespace", why=_TOLD),
    Other(holder=_GENERATOR, path="status.inventory[].namespace", why=_TOLD),
    Other(holder=(_SOURCE, "ExternalArtifact"), path="spec.sourceRef.namespace", why=_TOLD),
    Other(
        holder=(_POLICY, "ReferenceGrant"),
        path="spec.from[].namespace",
        why="it is the grant itself",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference of an object; ``path`` is its place, such as ``spec.sourceRefs[2]``.

    A reference that does not read its ``target`` sees only whether it is ready.
    """

    path: str
    target: ObjectRef
    reads: bool = True


class UngrantedError(AccessDeniedError):
    """No grant allows the reference."""


class BlockedError(AccessDeniedError):
    """A flag forbids all references to other namespaces, regardless of grants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The decision, with its inputs.

    ``cross_namespace`` is false under ``--no-cross-namespace-refs``: then grants have no effect.
    ``enforced`` is false under ``--cross-namespace-refs=warn``: then ``require`` allows references
    that only lack a grant.
    """

    grants: Lookup
    cross_namespace: bool = True
    enforced: bool = True

    def denial(
        self, holder: ObjectRef, target: ObjectRef, *, reads: bool = True
    ) -> UngrantedError | BlockedError | None:
        """Return why ``holder`` may not refer to ``target``; None if it may.

        An empty namespace of the target means that of the holder.

        Raises:
            WaitingError: the grants have not been listed yet.
        """
        if target.namespace in {"", holder.namespace}:
            return None
        if not self.cross_namespace:
            return BlockedError(
                f"can't access '{target}', cross-namespace references have been blocked"
            )
        if not reads or any(
            _allows(grant, holder, target) for grant in self.grants(target.namespace)
        ):
            return None
        return UngrantedError(
            f"can't access '{target}', no ReferenceGrant in namespace '{target.namespace}' "
            f"lets a {holder.gvk.kind} of namespace '{holder.namespace}' refer to it"
        )

    def denials(
        self, holder: ObjectRef, found: Iterable[Reference]
    ) -> list[tuple[Reference, UngrantedError | BlockedError]]:
        """Return the denied references with the reasons, whether or not denials are enforced.

        Raises:
            WaitingError: the grants have not been listed yet.
        """
        judged = ((each, self.denial(holder, each.target, reads=each.reads)) for each in found)
        return [(each, error) for each, error in judged if error is not None]

    def require(self, holder: ObjectRef, target: ObjectRef, *, reads: bool = True) -> None:
        """Require that ``holder`` may refer to ``target``, unless denials are not enforced.

        Raises:
            AccessDeniedError: the target is in another namespace, and no grant there allows it.
            WaitingError: the grants have not been listed yet.
        """
        error = self.denial(holder, target, reads=reads)
        if error is not None and self.refuses(error):
            raise error

    def refuses(self, error: AccessDeniedError) -> bool:
        """Tell whether a denial is enforced, and not only warned of."""
        return self.enforced or isinstance(error, BlockedError)


def under(grants: Lookup, options: Options) -> References:
    """Return the decision that rests on the grants and on the flags."""
    return References(
        grants=grants,
        cross_namespace=not options.no_cross_namespace_refs,
        enforced=options.cross_namespace_refs != "warn",
    )


def references(obj: Mapping[str, Any], own: str) -> Iterator[Reference]:
    """Yield every reference of ``REFERENCES`` that an object of the namespace ``own`` holds.

    The object may be in any version.
    """
    holder = gvk_of(obj)
    for field in REFERENCES:
        if field.holder != holder.group_kind:
            continue
        for path, value in fieldpaths.objects(obj, field.path):
            group, kind = field.meant(value)
            namespace = str(value.get("namespace") or own)
            target = ObjectRef(
                GroupVersionKind(group, "", kind), namespace, str(value.get("name") or "")
            )
            reads = not field.consents and (not field.reads or bool(value.get(field.reads)))
            yield Reference(path=path, target=target, reads=reads)


def _allows(grant: ReferenceGrant, holder: ObjectRef, target: ObjectRef) -> bool:
    """Tell whether a grant allows a holder to refer to a target."""
    if grant.metadata.namespace != target.namespace:
        return False
    given = any(
        (each.group, each.kind) == holder.gvk.group_kind
        and each.namespace in {EVERY, holder.namespace}
        for each in grant.spec.from_
    )
    return given and any(
        (each.group, each.kind) == target.gvk.group_kind and each.name in {"", target.name}
        for each in grant.spec.to
    )
