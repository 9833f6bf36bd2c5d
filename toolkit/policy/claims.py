"""Claims of provenance: read them from a user's extras, and verify them. Pure.

A webhook sees only the impersonated user. So claims depend on RBAC: only Penstock's controllers,
and users to whom an administrator has granted it, may impersonate with the extras
``provenance.penstock.dev/*``. Claims are not signed, because a user who could forge the extras
could also act as the account that holds the key. Instead, a claim is compared with the objects in
the cluster, in these steps:

1. Every claim has one value, of bounded length, and the applier is named.
2. The applier exists, and applies to this cluster.
3. The requester is the service account of this applier.
4. The source is the one from which the applier is built.
5. Revision and digest are those of an artifact that every source of the build has, or had until a
   moment ago.
6. The signer is the one in the metadata of those artifacts.

The origin of the artifacts is not a claim, because they record it themselves (``origins``); a
policy counts only origins that it admits (``held``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from crds.meta import VERIFIED, Artifact
from toolkit.errors import AccessDeniedError
from toolkit.kube import impersonation
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy import origins
from toolkit.policy.origins import Origin

APPLIERS: Final[Mapping[str, GroupVersionKind]] = MappingProxyType(
    {
        kind.kind: kind
        for kind in (
            GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
            GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease"),
        )
    }
)
"""The kinds whose objects may be the applier in a claim."""
MANAGERS: Final[Mapping[str, str]] = MappingProxyType(
    {"Kustomization": "kustomize-controller", "HelmRelease": "helm-controller"}
)
"""By kind, the field manager with which the controller applies."""
ACCOUNTS: Final[Mapping[str, str]] = MappingProxyType(
    {"Kustomization": "kustomize-applier", "HelmRelease": "helm-applier"}
)
"""By kind, the service account of the install namespace that applies where none is named."""
MOST: Final = 16384
"""Characters of a claim; the revision of a composed build names up to 33 sources."""
_UNTOLD: Final = "ExternalArtifact"
"""Third parties write its status, and prove nothing to us."""


class UntrustedError(AccessDeniedError):
    """The claims do not agree with the objects in the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of a write; all but the applier may be empty, as in the deletion of an applier."""

    applier: ObjectRef
    source: str = ""
    revision: str = ""
    digest: str = ""
    verified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One source of a build, where it is mounted, and its artifacts: the present one, late ones."""

    path: str
    source: ObjectRef
    artifacts: tuple[Artifact, ...] = ()

    @property
    def recorded(self) -> bool:
        """Tell whether Penstock records the origin of artifacts of this kind."""
        return self.source.gvk.kind != _UNTOLD

    def origins(self, artifact: Artifact) -> tuple[Origin, ...]:
        """Return the origins of an artifact; empty if no trusted record has them."""
        return origins.read(artifact.metadata) if self.recorded else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The facts about an applier in the cluster. A ``remote`` one applies to another cluster."""

    applier: ObjectRef
    account: ObjectKey
    remote: bool = False
    directory: str = ""
    parts: tuple[Part, ...] = ()

    @property
    def root(self) -> Part | None:
        """Return the source at the root of the build, or the first one where none is."""
        return root_of(self.parts)


def account(namespace: str, name: str, *, default: str, installed: ObjectKey) -> ObjectKey:
    """Return the service account that an applier of ``namespace`` acts as.

    ``name`` is the one that its spec names, ``default`` the value of ``--default-service-account``,
    ``installed`` the account of the installation for appliers of its kind.
    """
    chosen = name or default
    return ObjectKey(namespace, chosen) if chosen else installed


def parse(extra: Mapping[str, Sequence[str]]) -> Claims | None:
    """Read the claims of a user's extras, which the API server has decoded; None if there are none.

    Raises:
        UntrustedError: they are malformed.
    """
    keys = [name for name in impersonation.CLAIMS if impersonation.PREFIX + name in extra]
    if not keys:
        return None
    values = {name: _single(name, extra[impersonation.PREFIX + name]) for name in keys}
    applier = _applier(values.pop("applier", ""))
    return Claims(applier=applier, **values)


def authenticate(claims: Claims, *, user: str, standing: Standing | None) -> None:
    """Require that the cluster agrees with the claims; step 1 is ``parse``.

    Raises:
        UntrustedError: it does not. The reason may be that ``standing`` is not up to date.
    """
    # 2.
    if standing is None:
        raise UntrustedError(f"{claims.applier} does not exist")
    if standing.remote:
        raise UntrustedError(f"{claims.applier} applies to another cluster (spec.kubeConfig)")
    # 3.
    own = impersonation.service_account(standing.account.namespace, standing.account.name)
    if user != own:
        raise UntrustedError(f"{claims.applier} acts as '{own}', not as '{user}'")
    if not claims.source:
        return
    # 4.
    root = standing.root
    if root is None or str(root.source) != claims.source:
        raise UntrustedError(f"{claims.applier} is not built from '{claims.source}'")
    # 5., 6.
    if not held(claims, standing.parts):
        raise UntrustedError(
            f"revision '{claims.revision}' ({claims.digest or 'no digest'}"
            f"{', ' + claims.verified if claims.verified else ''}) is not what"
            f" {claims.source} holds"
        )


def held(claims: Claims, parts: Sequence[Part]) -> bool:
    """Tell whether revision, digest and signer are those of one artifact of every part."""
    return claims.verified in _vouchers(claims, parts, root_of(parts))


def root_of(parts: Sequence[Part]) -> Part | None:
    """Return the part at the root of the build, or the first one where none is."""
    return next((part for part in parts if not part.path), next(iter(parts), None))


def _single(name: str, values: Sequence[str]) -> str:
    if len(values) != 1 or not values[0] or len(values[0]) > MOST:
        raise UntrustedError(f"claim '{name}' must have one value of at most {MOST} characters")
    return values[0]


def _applier(text: str) -> ObjectRef:
    kind, *path = text.split("/")
    if kind not in APPLIERS or len(path) != 2 or not all(path):
        kinds = " or ".join(APPLIERS)
        raise UntrustedError(f"claim 'applier' must be <kind>/<namespace>/<name> of a {kinds}")
    return ObjectRef(APPLIERS[kind], path[0], path[1])


def _vouchers(claims: Claims, parts: Sequence[Part], root: Part | None) -> frozenset[str]:
    """Return the signers, as messages name them, of each build that revision and digest can mean.

    The revision of a build with several sources names each of them, so it is read source by source.
    The result is empty for a build with an unsigned source.
    """
    several, end = len(parts) > 1, (len(claims.revision), len(claims.digest))
    # A state: positions in revision and digest, signer of the root, whether all sources are signed.
    states = {((0, 0), "", True)}
    for number, part in enumerate(parts):
        lead = ", " * bool(number) + (f"{part.path}=" if several and part.path else "")
        states = {
            (further, signer if part is root else signed, complete and bool(signer))
            for at, signed, complete in states
            for artifact in part.artifacts
            for further in _read(claims, at, lead, artifact)
            for signer in (_signer(part, artifact),)
        }
    return frozenset(signed if complete else "" for at, signed, complete in states if at == end)


def _read(
    claims: Claims, at: tuple[int, int], lead: str, artifact: Artifact
) -> Iterator[tuple[int, int]]:
    """Yield the positions in revision and digest after those of an artifact, if they match."""
    revision, digest = at
    name = impersonation.escaped(lead + artifact.revision)
    content = impersonation.escaped(lead + artifact.digest)
    if claims.revision.startswith(name, revision) and claims.digest.startswith(content, digest):
        yield revision + len(name), digest + len(content)


def _signer(part: Part, artifact: Artifact) -> str:
    if not part.recorded:
        return ""
    return impersonation.escaped(artifact.metadata.get(VERIFIED, ""))
