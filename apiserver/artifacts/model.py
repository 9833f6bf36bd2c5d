"""``artifacts`` as clients see them: the schema, and what ``kubectl explain`` says.

Text below a field is its description. Nothing here computes anything.
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from crds import meta

Number = Annotated[int, Meta(ge=0)]


class ArtifactSource(meta.ApiStruct, frozen=True, kw_only=True):
    """Names the source object that the artifact was made for; it is in the same namespace."""

    api_version: str
    """API version of the source."""
    kind: str
    """Kind of the source, e.g. GitRepository."""
    name: str
    """Name of the source."""


class ArtifactSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What the artifact is. It never changes, but for the revision that it is offered as."""

    source_ref: ArtifactSource
    """Source that the artifact was made for."""
    revision: str = ""
    """Upstream revision that the artifact holds, e.g. main@sha1:<commit>. Empty if an older version
    of the store kept the artifact and did not write it down."""
    digest: str
    """Digest of the file, as <algorithm>:<hex>."""
    size: Number = 0
    """Size of the file in bytes."""
    file: str
    """Name of the file in the store."""
    media_type: str
    """What the file is, by its name: application/gzip for a tarball or a chart."""


class Signer(meta.ApiStruct, frozen=True, kw_only=True):
    """Somebody whose signature was found good."""

    identity: str = ""
    """Who it is: the name in a key, the subject of a certificate, the identity of a login."""
    issuer: str = ""
    """Who says so: the issuer of a certificate, or of a login. Empty for keys."""
    fingerprint: str = ""
    """Fingerprint of the key or the certificate, as far as there is a lasting one."""


class Verification(meta.ApiStruct, frozen=True, kw_only=True):
    """What a verification of signatures proved when the artifact was made."""

    method: str = ""
    """How it was verified: git, cosign-key, cosign-keyless or notation."""
    message: str
    """Who signed what, in words."""
    signers: list[Signer] = field(default_factory=list)
    """Who signed. A tag and its commit may have been signed by two."""
    facts: dict[str, str] = field(default_factory=dict)
    """Everything else that the verification found out, e.g. when it was signed."""


class StoredAt(meta.ApiStruct, frozen=True, kw_only=True):
    """The store that holds a file, and its address there."""

    backend: Literal["", "local", "bucket", "external"] = ""
    """local: on the disk of the source controller; bucket: in the bucket that its replicas share;
    external: on a server that is not of this installation. Empty while it is not known."""
    path: str = ""
    """Path of the file below the storage root."""
    url: str
    """Address at which consumers inside the cluster fetch the file."""


class User(meta.ApiStruct, frozen=True, kw_only=True):
    """An object in the same namespace that works with the artifact."""

    api_version: str
    """API version of the object."""
    kind: str
    """Kind of the object, e.g. Kustomization."""
    name: str
    """Name of the object."""
    state: Literal["Applied", "Attempted"]
    """Applied: what the object applied, or made, last came from this revision. Attempted: it tried
    this revision last, without success so far."""


class ArtifactStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """Who made and verified an artifact, where it is stored, and who uses it."""

    current: bool
    """Whether it is the one that the source offers. The others are kept for a while, for consumers
    that were told of them a moment ago."""
    other_revisions: list[str] = field(default_factory=list)
    """Further revisions of the source, still stored, with the very same content."""
    expires_at: meta.Timestamp = ""
    """When it may be deleted. Not set while it is current or among the newest, of which a number is
    always kept."""
    verification: Verification | None = None
    """What the signatures proved. Not set if none was asked for, or none is known: nobody's word is
    taken for the signatures of an ExternalArtifact."""
    stored: StoredAt
    """Where the artifact lies."""
    used_by: list[User] = field(default_factory=list)
    """Objects in this namespace that work with this revision, a hundred at most."""
    used_more: Number = 0
    """How many more objects in this namespace do so."""
    used_elsewhere: Number = 0
    """How many objects in other namespaces do so. Their names are theirs."""


class Artifact(meta.ApiStruct, frozen=True, kw_only=True):
    """An artifact that is stored for a source: the current one, or one that is kept a while longer.

    It is read-only, and made from the source and the artifact store. The subresource `content` is
    the file itself, `files` lists a tarball or shows one file of it, `diff` compares two artifacts
    of a source.
    """

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "Artifact"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ArtifactSpec
    """What the artifact is."""
    status: ArtifactStatus
    """Where the artifact stands now."""


class FileOutline(meta.ApiStruct, frozen=True, kw_only=True):
    """What can be told of a file to those who may not read it."""

    path: str
    """Path below the root of the artifact."""
    size: Number
    """Size in bytes."""
    mode: str
    """Permissions as consumers unpack it: 0600, or 0700 if it is executable."""


class File(meta.ApiStruct, frozen=True, kw_only=True):
    """A file in an artifact."""

    path: str
    """Path below the root of the artifact."""
    size: Number
    """Size in bytes."""
    mode: str
    """Permissions as consumers unpack it: 0600, or 0700 if it is executable."""
    sha256: str
    """SHA-256 of the content, in hexadecimal."""


class ArtifactFiles(meta.ApiStruct, frozen=True, kw_only=True):
    """The files in an artifact, in the order of their paths. Links are passed over."""

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "ArtifactFiles"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    """Name and namespace of the artifact."""
    revision: str = ""
    """Revision of the artifact."""
    digest: str
    """Digest of the artifact."""
    count: Number
    """How many files there are."""
    total_size: Number
    """Their sizes together, in bytes."""
    files: list[File]
    """The files."""


class Side(meta.ApiStruct, frozen=True, kw_only=True):
    """One of the artifacts that are compared."""

    name: str
    """Name of the artifact."""
    revision: str = ""
    """Revision of the artifact."""
    digest: str
    """Digest of the artifact."""


class FileChange(meta.ApiStruct, frozen=True, kw_only=True):
    """A file that is not the same in both artifacts."""

    path: str
    """Path below the root of the artifacts."""
    change: Literal["Added", "Removed", "Modified"]
    """What happened to it on the way from one to the other."""
    before: FileOutline | None = None
    """The file before, unless it was added."""
    after: FileOutline | None = None
    """The file after, unless it was removed."""


class ChartChange(meta.ApiStruct, frozen=True, kw_only=True):
    """A version of a chart that is not the same in both indexes."""

    chart: str
    """Name of the chart."""
    version: str
    """Version of the chart."""
    change: Literal["Added", "Removed", "Modified"]
    """What happened to it. Modified: the same version now names another digest."""


class ArtifactDiff(meta.ApiStruct, frozen=True, kw_only=True):
    """What changed between two artifacts of a source: names and sizes, never content.

    Content may hold secrets, and digests of it confirm guesses at short ones; who may read it reads
    the files of both.
    """

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "ArtifactDiff"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    """Name and namespace of the artifact that was asked for."""
    before: Side
    """Artifact that is compared with."""
    after: Side
    """Artifact that was asked for."""
    added: Number
    """How many files, or chart versions, were added."""
    removed: Number
    """How many were removed."""
    modified: Number
    """How many are there in both, and differ."""
    files: list[FileChange] = field(default_factory=list)
    """The files that differ, in the order of their paths."""
    charts: list[ChartChange] = field(default_factory=list)
    """The chart versions that differ, if both are the index of a HelmRepository."""
