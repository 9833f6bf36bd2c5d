"""``source.toolkit.fluxcd.io/v1``: GitRepository, manifests that lie in Git.

Fields, patterns, defaults and rules are those of Flux's source-controller. Text below an
attribute is its description in the CRD. Older versions live in ``crds.source_v1beta1`` and
``crds.source_v1beta2``.
"""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from crds import meta, unwritten
from crds import source_parts as parts
from crds.rules import Rule

GROUP: Final = "source.toolkit.fluxcd.io"


class GitRepositoryRef(meta.ApiStruct, frozen=True, kw_only=True):
    """Which revision of a repository to take.

    Where several fields are set, the order is commit, name, semver, tag, branch.
    """

    branch: str = ""
    """Branch to follow. With nothing set at all, `master`."""
    tag: str = ""
    """Tag to check out. Wins over branch."""
    semver: str = ""
    """Range over the repository's tags, e.g. `>=1.0.0 <2.0.0`; the highest match is taken.
    Wins over tag."""
    name: str = ""
    """Full name of a reference, e.g. `refs/heads/main` or `refs/pull/420/head`. Wins over branch,
    tag and semver."""
    commit: str = ""
    """Commit SHA to check out. Wins over all others. Together with branch only that branch is
    fetched to find it."""


class GitRepositoryVerification(meta.ApiStruct, frozen=True, kw_only=True):
    """Which signatures to demand, and whose."""

    mode: Literal["head", "HEAD", "Tag", "TagAndHEAD"] = "HEAD"
    """What must be signed: `HEAD` the commit that is checked out (`head` means the same), `Tag` the
    annotated tag that ref names, `TagAndHEAD` both."""
    secret_ref: meta.LocalObjectReference
    """Secret with the public keys of trusted authors. Keys ending in `.sshpub` hold SSH public
    keys, all others OpenPGP keyrings."""


class GitRepositoryInclude(meta.ApiStruct, frozen=True, kw_only=True):
    """Another GitRepository whose files are copied into this one's artifact."""

    repository: meta.LocalObjectReference
    """GitRepository in the same namespace. Its artifact must exist before this one is built."""
    from_path: str = ""
    """Directory in the included artifact to copy. Defaults to all of it."""
    to_path: str = ""
    """Directory to copy to. Defaults to the name of the included GitRepository."""

    @property
    def target(self) -> str:
        """Return the directory that the files go to."""
        return self.to_path or self.repository.name


class GitRepositorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to fetch, how often, and with which credentials."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.serviceAccountName) || "
            "(has(self.provider) && self.provider in ['aws', 'azure'])",
            "serviceAccountName can only be set when provider is 'aws' or 'azure'",
            field=".serviceAccountName",
            reason="FieldValueForbidden",
        ),
    )

    url: Annotated[str, Meta(pattern=r"^(http|https|ssh)://.*$")]
    """Address of the repository, over HTTP, HTTPS or SSH."""
    interval: meta.Duration
    """How often to ask the repository for a new revision, e.g. `5m`. Asking is cheap: nothing is
    fetched while the revision is unchanged."""
    timeout: meta.ShortDuration = "60s"
    """How long one fetch may take, everything included, before it is cancelled."""
    ref: GitRepositoryRef | None = None
    """Branch, tag, range or commit to take. Defaults to the branch `master`."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with credentials. Over HTTPS `username` and `password`, or `bearerToken`, or the
    `githubApp…` keys, with `ca.crt`, `tls.crt`, `tls.key` where the server needs them; over SSH
    `identity` and `known_hosts`, with `password` for an encrypted key."""
    provider: Annotated[
        Literal["generic", "aws", "azure", "github"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "generic"
    """Who vouches for the credentials: `generic` uses secretRef alone, `aws` and `azure` take a
    token from the cloud's workload identity, `github` one for the GitHub App in secretRef."""
    service_account_name: str = ""
    """ServiceAccount whose workload identity signs in at `aws` or `azure`. Defaults to the
    controller's own."""
    proxy_secret_ref: meta.LocalObjectReference | None = None
    """Secret with the `address` of a proxy, and `username` and `password` where it asks for them.
    Used over HTTP and HTTPS."""
    verify: GitRepositoryVerification | None = None
    """Demand a signature. A revision without a valid one never becomes an artifact."""
    ignore: str = ""
    """Files to leave out of the artifact, in .gitignore syntax. Replaces the built-in list and
    applies in addition to .sourceignore files in the repository."""
    suspend: bool = False
    """Stop fetching. The last artifact stays available."""
    recurse_submodules: bool = False
    """Fetch submodules too, with the same credentials."""
    include: list[GitRepositoryInclude] = field(default_factory=list)
    """GitRepositories whose artifacts are copied into this one's."""
    sparse_checkout: list[str] = field(default_factory=list)
    """Directories to take; everything else is left out. Defaults to the whole repository."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two looks at the repository."""
        return meta.interval_seconds(self.interval)

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of one fetch."""
        return meta.timeout_seconds(self.timeout)


class GitRepositoryStatus(parts.SourceStatus, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    included_artifacts: list[meta.Artifact] = field(default_factory=list)
    """Artifacts of the included GitRepositories that the last artifact was built with."""
    observed_ignore: str | None = None
    """spec.ignore that the last artifact was built with."""
    observed_recurse_submodules: bool = False
    """spec.recurseSubmodules that the last artifact was built with."""
    observed_include: list[GitRepositoryInclude] = field(default_factory=list)
    """spec.include that the last artifact was built with."""
    observed_sparse_checkout: list[str] = field(default_factory=list)
    """spec.sparseCheckout that the last artifact was built with."""
    source_verification_mode: str | None = None
    """What was verified for the last artifact: one of spec.verify.mode."""


class GitRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Git repository whose files at one revision are offered as an artifact."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "GitRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: GitRepositorySpec = unwritten.spec(GitRepositorySpec)
    status: GitRepositoryStatus = field(
        default_factory=lambda: GitRepositoryStatus(observed_generation=-1)
    )
