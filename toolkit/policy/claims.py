"""Claims of provenance: read them from a user's extras, and tell whether they can be true. Pure.

A webhook sees the impersonated user only, so claims rest on who may impersonate with the extras
``provenance.penstock.dev/*``: our controllers, and those to whom an administrator gave it.
They are not signed, because anyone who could forge the extras could as well act as the account that
holds the key. Instead a claim is held against what the cluster knows, in these steps:

1. Every claim has one value, of bounded length, and the applier is named.
2. The applier exists, and applies to this cluster.
3. The requester is the service account that this applier acts as.
4. The source is the one that the applier is built from.
5. Revision and digest are those of an artifact that every source of the build has, or had until a
   moment ago.
6. Who signed is what those artifacts tell.

Where those artifacts were fetched from is not a claim: they tell it themselves (``origins``), and a
policy counts those only that it admits (``held``).
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
"""The kinds whose objects may say that they wrote something."""
ACCOUNTS: Final[Mapping[str, str]] = MappingProxyType(
    {"Kustomization": "kustomize-applier", "HelmRelease": "helm-applier"}
)
"""By kind, the service account of the install namespace that applies where none is named."""
MOST: Final = 16384
"""Characters of a claim; the revision of a composed build names up to 33 sources."""
_UNTOLD: Final = "ExternalArtifact"
"""Third parties write its status, and prove nothing to us."""


class UntrustedError(AccessDeniedError):
    """Claims that nothing stands behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a write says of itself; all but the applier may be empty, as when an applier ends."""

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
        """Tell whether what artifacts of this kind were fetched from is recorded by us."""
        return self.source.gvk.kind != _UNTOLD

    def origins(self, artifact: Artifact) -> tuple[Origin, ...]:
        """Return what an artifact was fetched from; none if nobody tells who is believed."""
        return origins.read(artifact.metadata) if self.recorded else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the cluster knows of an applier. ``remote`` ones act on another cluster."""

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
    """Require that the cluster stands behind the claims; step 1 is ``parse``.

    Raises:
        UntrustedError: it does not. That may be because ``standing`` is not the latest.
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
    """Return who vouches, in words, for each build that revision and digest may mean.

    Those of a composed build name every part, so they are read part by part. Nobody vouches for a
    build of which one part is not signed.
    """
    several, end = len(parts) > 1, (len(claims.revision), len(claims.digest))
    states = {((0, 0), "", True)}  # how far both are read, who signed the root, whether all are
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
    """Yield where revision and digest go on behind an artifact's, if that is what they name."""
    revision, digest = at
    name = impersonation.escaped(lead + artifact.revision)
    content = impersonation.escaped(lead + artifact.digest)
    if claims.revision.startswith(name, revision) and claims.digest.startswith(content, digest):
        yield revision + len(name), digest + len(content)


def _signer(part: Part, artifact: Artifact) -> str:
    if not part.recorded:
        return ""
    return impersonation.escaped(artifact.metadata.get(VERIFIED, ""))
