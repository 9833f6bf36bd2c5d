"""``source.extensions.fluxcd.io/v1beta1``: artifacts that are made from other artifacts.

Fields, patterns and rules are those of Flux's source-watcher, with one addition: the status tells
its ``observedGeneration``, as that of every other kind does.
"""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from crds import meta, unwritten
from crds.rules import Rule

GROUP: Final = "source.extensions.fluxcd.io"
SWITCH: Final = f"{GROUP}/reconcile"
"""Annotation by which an ArtifactGenerator is switched off; its spec has no ``suspend``."""

_NAME: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_ALIAS: Final = r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?"
_INTERVAL: Final = 3600.0
"""Seconds between two passes when no source changes."""

SourceAlias = Annotated[str, Meta(max_length=64, pattern=rf"^@({_ALIAS})$")]


class GeneratorSource(meta.ApiStruct, frozen=True, kw_only=True):
    """A source to take files from, and the name that it goes by below."""

    alias: Annotated[str, Meta(max_length=63, pattern=rf"^{_ALIAS}$")]
    """Name by which artifacts refer to the source; no two sources may share one."""
    kind: Literal["Bucket", "GitRepository", "OCIRepository", "HelmChart", "ExternalArtifact"]
    """Kind of the source."""
    name: Annotated[str, Meta(max_length=253, pattern=_NAME)]
    """Name of the source."""
    namespace: Annotated[
        str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ] = ""
    """Namespace of the source. Defaults to that of the generator; another one must allow it."""


class CopyOperation(meta.ApiStruct, frozen=True, kw_only=True):
    """Files to take from a source, and where to put them."""

    from_: Annotated[str, Meta(max_length=1024, pattern=rf"^@({_ALIAS})/(.*)$")] = field(
        name="from"
    )
    """`@<alias>/<path>`: a file, a directory, or a glob with `*` and `**`. A directory keeps its
    own name at the destination; `<directory>/**` takes what is in it."""
    to: Annotated[str, Meta(max_length=1024, pattern=r"^@(artifact)/(.*)$")]
    """`@artifact/<path>`: a file, or with a slash at the end a directory."""
    exclude: Annotated[list[str], Meta(max_length=100)] = field(default_factory=list)
    """Globs for files and directories to leave out, as in .gitignore, relative to the source or to
    where the glob of `from` begins."""
    strategy: Annotated[
        Literal["Overwrite", "Merge", "Extract"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "Overwrite"
    """What to do with a file: `Overwrite` puts it in place of one that is there, `Merge` merges
    YAML into it as Helm merges values, `Extract` unpacks a tarball (`.tar.gz` or `.tgz`)."""


class OutputArtifact(meta.ApiStruct, frozen=True, kw_only=True):
    """One artifact to make."""

    name: Annotated[str, Meta(max_length=253)]
    """Name of the ExternalArtifact, in the generator's namespace. With pathPattern it may hold
    captures, e.g. `app-{app}`."""
    revision: SourceAlias = ""
    """`@<alias>` of the source whose revision the artifact gets. Defaults to
    `latest@<digest of the files>`."""
    origin_revision: SourceAlias = ""
    """`@<alias>` of the source whose upstream revision is told in the artifact's metadata."""
    copy: Annotated[list[CopyOperation], Meta(min_length=1)]
    """What the artifact is made of, in order: later files win over earlier ones."""


class CommonMetadata(meta.ApiStruct, frozen=True, kw_only=True):
    """Labels and annotations for every object made."""

    labels: dict[str, str] = field(default_factory=dict)
    """Labels to set."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations to set."""


class ArtifactGeneratorSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to take, and what to make of it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.pathPattern) && size(self.pathPattern) > 0 || "
            rf"self.artifacts.all(a, a.name.matches('^{_LABEL}(\\.{_LABEL})*$'))",
            "artifact names must be lower case letters, digits, dashes and dots, as names of "
            "objects, unless pathPattern is set",
            field=".artifacts",
        ),
    )

    sources: Annotated[list[GeneratorSource], Meta(min_length=1, max_length=1000)]
    """Sources to take files from. A new artifact of any of them is acted upon at once."""
    artifacts: Annotated[list[OutputArtifact], Meta(min_length=1, max_length=1000)]
    """Artifacts to make, each as an ExternalArtifact."""
    path_pattern: Annotated[str, Meta(max_length=1024, pattern=rf"^@({_ALIAS})/(.*)$")] = ""
    """`@<alias>/<path>` with captures, e.g. `@fleet/apps/{app}/envs/{env}`. The artifacts are made
    once for every directory that matches; `{app}` in their fields stands for what it matched, and
    what was matched becomes labels of the object."""
    common_metadata: CommonMetadata | None = None
    """Labels and annotations to put on every ExternalArtifact."""

    @property
    def suspend(self) -> bool:
        """Tell that there is no such field: an annotation switches a generator off."""
        return False

    @property
    def interval_seconds(self) -> float:
        """Return the time between two passes when no source changes."""
        return _INTERVAL


class GeneratedArtifact(meta.ApiStruct, frozen=True, kw_only=True):
    """One ExternalArtifact that was made."""

    name: str
    """Name of the ExternalArtifact."""
    namespace: str
    """Namespace of the ExternalArtifact."""
    digest: str
    """Digest of its artifact."""
    filename: str
    """Name of the artifact's file."""


class ArtifactGeneratorStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was made last, and how that went."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, and while they hold Reconciling, Stalled."""
    inventory: list[GeneratedArtifact] = field(default_factory=list)
    """Artifacts that were made. What leaves it is deleted."""
    observed_sources_digest: str = ""
    """Digest over the sources' artifacts that the last pass worked on."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""


class ArtifactGenerator(Struct, frozen=True, kw_only=True, rename="camel"):
    """Composes artifacts of several sources, or splits one into many."""

    api_version: str = f"{GROUP}/v1beta1"
    kind: str = "ArtifactGenerator"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ArtifactGeneratorSpec = unwritten.spec(ArtifactGeneratorSpec)
    status: ArtifactGeneratorStatus = ArtifactGeneratorStatus()
