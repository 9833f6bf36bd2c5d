"""``artifacts``: the schema of the objects, and their descriptions for ``kubectl explain``.

The text below a field is its description. Nothing here computes anything.
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
    """Description of the artifact. It never changes, except for its revision."""

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
    """Media type by the file's name: application/gzip for a tarball or a chart."""


class Signer(meta.ApiStruct, frozen=True, kw_only=True):
    """Somebody whose signature was found good."""

    identity: str = ""
    """The signer: the name in a key, the subject of a certificate, or the identity of a login."""
    issuer: str = ""
    """Authority for the identity: the issuer of a certificate or of a login. Empty for keys."""
    fingerprint: str = ""
    """Fingerprint of the key or the certificate. Empty for short-lived certificates."""


class Verification(meta.ApiStruct, frozen=True, kw_only=True):
    """The result of verifying the signatures when the artifact was made."""

    method: str = ""
    """Method of the verification: git, cosign-key, cosign-keyless or notation."""
    message: str
    """The signer and the signed object, as text."""
    signers: list[Signer] = field(default_factory=list)
    """The signers. A tag and its commit may have different ones."""
    facts: dict[str, str] = field(default_factory=dict)
    """Further facts that the verification found, such as the time of the signature."""


class StoredAt(meta.ApiStruct, frozen=True, kw_only=True):
    """The store that holds a file, and its address there."""

    backend: Literal["", "local", "bucket", "external"] = ""
    """local: on the disk of the source controller; bucket: in the bucket that its replicas share;
    external: on a server that is not part of this installation. Empty while it is unknown.
    """
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
    """Applied: the last successful apply or build of the object used this revision. Attempted: the
    object tried this revision last, without success so far.
    """


class ArtifactStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """Verification, storage and users of the artifact."""

    current: bool
    """Whether the source offers this artifact now. Others are retained for a while, for users that
    have read an older status.
    """
    other_revisions: list[str] = field(default_factory=list)
    """Further revisions of the source, still stored, with the very same content."""
    expires_at: meta.Timestamp = ""
    """When it may be deleted. Not set while it is current or among the newest, of which a number is
    always kept."""
    verification: Verification | None = None
    """The result of verifying the signatures. Not set if the source requires no signature, or if it
    is unknown: claims about ExternalArtifacts are not trusted.
    """
    stored: StoredAt
    """The place where the artifact is stored."""
    used_by: list[User] = field(default_factory=list)
    """Objects in this namespace that work with this revision, a hundred at most."""
    used_more: Number = 0
    """Number of further users in this namespace."""
    used_elsewhere: Number = 0
    """Number of users in other namespaces. Their names are not shown."""


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
    """Description of the artifact."""
    status: ArtifactStatus
    """Current state of the artifact."""


class FileOutline(meta.ApiStruct, frozen=True, kw_only=True):
    """The part of a file that is shown to users who may not read it."""

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
    """Number of files."""
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
    """Change of the file from the earlier artifact to this one."""
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
    """Change of the version. Modified: the same version now has another digest."""


class ArtifactDiff(meta.ApiStruct, frozen=True, kw_only=True):
    """Changes between two artifacts of a source: names and sizes, never content.

    Content may contain secrets, and its digests could confirm guesses of short ones. Users who may
    read content can read the files of both artifacts.
    """

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "ArtifactDiff"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    """Name and namespace of the requested artifact."""
    before: Side
    """Artifact that is compared with."""
    after: Side
    """The requested artifact."""
    added: Number
    """Number of added files, or chart versions."""
    removed: Number
    """Number of removed files, or chart versions."""
    modified: Number
    """Number of files, or chart versions, that are in both and differ."""
    files: list[FileChange] = field(default_factory=list)
    """The files that differ, in the order of their paths."""
    charts: list[ChartChange] = field(default_factory=list)
    """The chart versions that differ, if both are the index of a HelmRepository."""
