"""Claims of provenance: read them from a user's extras, and tell whether they can be true. Pure.

A webhook sees the impersonated user only, so claims rest on who may impersonate with the extras
``provenance.penstock.dev/*``: our controllers, and whoever an administrator gave that right. They
are not signed, because whoever could forge the extras could as well act as the account that holds
the key. Instead a claim is held against what the cluster knows, in these steps:

1. Every claim has one value, of bounded length, and the applier is named.
2. The applier exists, and applies to this cluster.
3. The requester is the service account that this applier acts as.
4. The source is the one that the applier is built from.
5. Revision and digest are those of an artifact that every source of the build has, or had until a
   moment ago.
6. Who signed is what those artifacts tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crds.meta import VERIFIED, Artifact
from toolkit.errors import AccessDeniedError
from toolkit.kube import impersonation
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef

KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
APPLIER: Final = "kustomize-applier"
"""The service account of the install namespace that applies where no account is named."""
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
    url: str = ""
    artifacts: tuple[Artifact, ...] = ()


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
        return next((part for part in self.parts if not part.path), next(iter(self.parts), None))


def account(namespace: str, name: str, *, default: str, installed: str) -> ObjectKey:
    """Return the service account that an applier of ``namespace`` acts as.

    ``name`` is the one that its spec names, ``default`` the value of ``--default-service-account``.
    """
    chosen = name or default
    return ObjectKey(namespace, chosen) if chosen else ObjectKey(installed, APPLIER)


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
    if claims.verified not in _vouchers(claims, standing.parts, root):
        raise UntrustedError(
            f"revision '{claims.revision}' ({claims.digest or 'no digest'}"
            f"{', ' + claims.verified if claims.verified else ''}) is not what"
            f" {claims.source} holds"
        )


def _single(name: str, values: Sequence[str]) -> str:
    if len(values) != 1 or not values[0] or len(values[0]) > MOST:
        raise UntrustedError(f"claim '{name}' must have one value of at most {MOST} characters")
    return values[0]


def _applier(text: str) -> ObjectRef:
    kind, *path = text.split("/")
    if kind != "Kustomization" or len(path) != 2 or not all(path):
        raise UntrustedError("claim 'applier' must be Kustomization/<namespace>/<name>")
    return ObjectRef(GroupVersionKind(KUSTOMIZE, "v1", kind), path[0], path[1])


def _vouchers(claims: Claims, parts: Iterable[Part], root: Part) -> frozenset[str]:
    """Return who vouches, in words, for each build that revision and digest may mean.

    The revision of a composed build names every part, so it is read part by part. Nobody vouches
    for a build of which one part is not signed.
    """
    text, several = claims.revision, any(part is not root for part in parts)
    states = {(0, "", True)}  # how far it is read, who signed the root, whether all are signed
    for number, part in enumerate(parts):
        lead = ", " * bool(number) + (f"{part.path}=" if several and part.path else "")
        states = {
            (at + len(name), signer if part is root else signed, complete and bool(signer))
            for at, signed, complete in states
            for artifact in part.artifacts
            if text.startswith(name := impersonation.escaped(lead + artifact.revision), at)
            if part is not root or artifact.digest == claims.digest
            for signer in (_signer(part, artifact),)
        }
    return frozenset(
        signed if complete else "" for at, signed, complete in states if at == len(text)
    )


def _signer(part: Part, artifact: Artifact) -> str:
    if part.source.gvk.kind == _UNTOLD:
        return ""
    return impersonation.escaped(artifact.metadata.get(VERIFIED, ""))
