"""``source.toolkit.fluxcd.io/v1beta1``: GitRepository as Flux served it up to 2.6.

Durations have no pattern here: any Go duration was taken. Fields without a text below them mean
what they mean in ``crds.source``.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from crds import meta, source


class AccessFromSelector(meta.ApiStruct, frozen=True, kw_only=True):
    """Selects namespaces."""

    match_labels: dict[str, str] = field(default_factory=dict)
    """Labels that a namespace must have. With none, every namespace is selected."""


class AccessFrom(meta.ApiStruct, frozen=True, kw_only=True):
    """Namespaces that may refer to this object; declared by Flux and never enforced."""

    namespace_selectors: list[AccessFromSelector]
    """Selectors, of which one must match."""


class Artifact(meta.ApiStruct, frozen=True, kw_only=True):
    """What a source produced last, and where to get it."""

    path: str
    """Path of the file below the storage root."""
    url: str
    """Address at which consumers inside the cluster fetch the file."""
    revision: str = ""
    """Upstream revision that the artifact holds, as `<branch>/<commit>`."""
    checksum: str = ""
    """SHA-256 of the file in hexadecimal."""
    last_update_time: meta.Timestamp | None = None
    """When this artifact was stored."""


class GitRepositoryRef(meta.ApiStruct, frozen=True, kw_only=True):
    """Which revision of a repository to take."""

    branch: str = ""
    tag: str = ""
    semver: str = ""
    commit: str = ""


class GitRepositoryVerification(meta.ApiStruct, frozen=True, kw_only=True):
    """Whose OpenPGP signature to demand."""

    mode: Literal["head"]
    """What must be signed: the commit that is checked out."""
    secret_ref: meta.LocalObjectReference | None = None


class GitRepositorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to fetch, how often, and with which credentials."""

    url: Annotated[str, Meta(pattern=r"^(http|https|ssh)://.*$")]
    interval: str
    timeout: str = "60s"
    ref: GitRepositoryRef | None = None
    secret_ref: meta.LocalObjectReference | None = None
    verify: GitRepositoryVerification | None = None
    ignore: str = ""
    suspend: bool = False
    git_implementation: Literal["go-git", "libgit2"] = "go-git"
    """Deprecated: there is one implementation. Accepted and without effect."""
    recurse_submodules: bool = False
    include: list[source.GitRepositoryInclude] = field(default_factory=list)
    access_from: AccessFrom | None = None
    """Deprecated: accepted and without effect."""


class GitRepositoryStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    observed_generation: meta.Count = 0
    conditions: meta.Conditions = field(default_factory=list)
    url: str = ""
    """Address of the newest artifact."""
    artifact: Artifact | None = None
    included_artifacts: list[Artifact] = field(default_factory=list)
    last_handled_reconcile_at: str = ""


class GitRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Git repository whose files at one revision are offered as an artifact."""

    api_version: str = f"{source.GROUP}/v1beta1"
    kind: str = "GitRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: GitRepositorySpec
    status: GitRepositoryStatus = field(
        default_factory=lambda: GitRepositoryStatus(observed_generation=-1)
    )
