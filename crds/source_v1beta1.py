"""``source.toolkit.fluxcd.io/v1beta1``: GitRepository as Flux served it up to 2.6.

Durations have no pattern here: any Go duration was taken. Fields without a text below them mean
what they mean in ``crds.source``.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from crds import meta, source
from crds import source_parts as parts
from crds.change import Change
from crds.source_parts_v1beta1 import ARTIFACT, ARTIFACTS, Artifact, SourceStatus, durations


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


class SameSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What v1beta1 and v1beta2 have in common."""

    url: Annotated[str, Meta(pattern=r"^(http|https|ssh)://.*$")]
    secret_ref: meta.LocalObjectReference | None = None
    ignore: str = ""
    suspend: bool = False
    git_implementation: Annotated[
        Literal["go-git", "libgit2"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "go-git"
    """Deprecated: there is one implementation. Accepted and without effect."""
    recurse_submodules: bool = False
    include: list[source.GitRepositoryInclude] = field(default_factory=list)
    access_from: parts.AccessFrom | None = None
    """Deprecated: accepted and without effect."""


class GitRepositorySpec(SameSpec, frozen=True, kw_only=True):
    """What to fetch, how often, and with which credentials."""

    interval: str
    timeout: str = "60s"
    ref: GitRepositoryRef | None = None
    verify: GitRepositoryVerification | None = None


class GitRepositoryStatus(SourceStatus, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    included_artifacts: list[Artifact] = field(default_factory=list)


class GitRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Git repository whose files at one revision are offered as an artifact."""

    api_version: str = f"{source.GROUP}/v1beta1"
    kind: str = "GitRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: GitRepositorySpec
    status: GitRepositoryStatus = field(
        default_factory=lambda: GitRepositoryStatus(observed_generation=-1)
    )


CHANGES: Final[tuple[Change, ...]] = (*durations(), ARTIFACT, ARTIFACTS)
