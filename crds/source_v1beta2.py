"""``source.toolkit.fluxcd.io/v1beta2``: GitRepository as Flux served it up to 2.7.

Fields without a text below them mean what they mean in ``crds.source``.
"""

from typing import Literal

from msgspec import Struct, field

from crds import meta, source, source_v1beta1
from crds import source_parts as parts


class GitRepositoryVerification(meta.ApiStruct, frozen=True, kw_only=True):
    """Whose OpenPGP signature to demand."""

    mode: Literal["head"]
    """What must be signed: the commit that is checked out."""
    secret_ref: meta.LocalObjectReference


class GitRepositorySpec(source_v1beta1.SameSpec, frozen=True, kw_only=True):
    """What to fetch, how often, and with which credentials."""

    interval: meta.Duration
    timeout: meta.ShortDuration = "60s"
    ref: source.GitRepositoryRef | None = None
    verify: GitRepositoryVerification | None = None


class GitRepositoryStatus(parts.LinkedSourceStatus, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    included_artifacts: list[meta.Artifact] = field(default_factory=list)
    content_config_checksum: str = ""
    """Deprecated: checksum over ignore, include and submodule settings of the last artifact."""
    observed_ignore: str | None = None
    observed_recurse_submodules: bool = False
    observed_include: list[source.GitRepositoryInclude] = field(default_factory=list)


class GitRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Git repository whose files at one revision are offered as an artifact."""

    api_version: str = f"{source.GROUP}/v1beta2"
    kind: str = "GitRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: GitRepositorySpec
    status: GitRepositoryStatus = field(
        default_factory=lambda: GitRepositoryStatus(observed_generation=-1)
    )
