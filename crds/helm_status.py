"""What ``HelmReleaseStatus`` is made of: the releases that were made, and the objects they hold."""

from typing import Literal, TypeAlias

from msgspec import field

from crds import kustomize, meta

ReleaseAction: TypeAlias = Literal["install", "upgrade"]


class TestHookStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """Outcome of one test."""

    last_started: meta.Timestamp | None = None
    """When it last started."""
    last_completed: meta.Timestamp | None = None
    """When it last ended."""
    phase: str = ""
    """`Running`, `Succeeded` or `Failed`; `Unknown` before the first run."""


class Snapshot(meta.ApiStruct, frozen=True, kw_only=True):
    """A release as it was after an action."""

    api_version: str = ""
    """How digest was computed: `v2` since Helm 4, empty or `v1` before it."""
    digest: str
    """Digest of the release in Helm's storage, to notice when another client has changed it."""
    name: str
    """Name of the release."""
    namespace: str
    """Namespace that the release is deployed to."""
    version: int
    """Number of the release in Helm's storage."""
    status: str
    """Status of the release in Helm's storage, e.g. `deployed`, `superseded`, `failed`."""
    action: str = ""
    """Action that made it: `install`, `upgrade`, `rollback`, `uninstall` or
    `uninstall-remediation`."""
    chart_name: str
    """Name of the chart."""
    chart_version: str
    """Version of the chart."""
    app_version: str = ""
    """Version of the application in the chart."""
    config_digest: str
    """Digest of the values that the release was made with."""
    first_deployed: meta.Timestamp
    """When the release was first deployed."""
    last_deployed: meta.Timestamp
    """When the release was last deployed."""
    deleted: meta.Timestamp | None = None
    """When the release was uninstalled."""
    test_hooks: dict[str, TestHookStatus] | None = None
    """Outcomes of the tests by their names; absent before they have run."""
    oci_digest: str = ""
    """Digest of the artifact that the chart came from, where that is an OCIRepository."""


class ResourceInventory(meta.ApiStruct, frozen=True, kw_only=True):
    """All objects of the release, and the CRDs of its chart."""

    entries: list[kustomize.ResourceRef]
    """The objects."""


class SameStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What every version tells of the release."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes; -1 before the first look."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, Released, and where they apply Reconciling, Stalled, TestSuccess, Remediated,
    Drifted."""
    helm_chart: str = ""
    """The HelmChart that was created for this HelmRelease, as `<namespace>/<name>`."""
    storage_namespace: meta.Namespace = ""
    """Namespace that the records of the release are in."""
    history: list[Snapshot] = field(default_factory=list)
    """Releases since the last one that succeeded, newest first."""
    failures: meta.Count = 0
    """Failures in a row; set back when the release is as desired."""
    install_failures: meta.Count = 0
    """Failed attempts to install the desired state."""
    upgrade_failures: meta.Count = 0
    """Failed attempts to upgrade to the desired state."""
    last_attempted_generation: meta.Count = 0
    """Generation of the spec that the last attempt was made for."""
    last_attempted_release_action: ReleaseAction | None = None
    """What was attempted last. It tells which remediation applies."""
    last_attempted_revision: str = ""
    """Version of the chart that the last attempt was made with."""
    last_attempted_revision_digest: str = ""
    """Digest of the artifact of the last attempt, where that is of an OCIRepository."""
    last_attempted_values_checksum: str = ""
    """Deprecated: SHA-1 of the values; see lastAttemptedConfigDigest."""
    last_attempted_config_digest: str = ""
    """Digest of the values that the last attempt was made with."""
    last_release_revision: int = 0
    """Deprecated: number of the last release; see history."""
    last_applied_revision: str = ""
    """Deprecated: version of the chart of the last release that succeeded; see history."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""
    last_handled_force_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/forceAt that was seen last."""
    last_handled_reset_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/resetAt that was seen last."""


class HelmReleaseStatus(SameStatus, frozen=True, kw_only=True):
    """What was released last, and how that went."""

    last_attempted_release_action_duration: str = ""
    """How long the last installation or upgrade took."""
    observed_post_renderers_digest: str = ""
    """Digest of the post-renderers of the last release that succeeded."""
    observed_common_metadata_digest: str = ""
    """Digest of commonMetadata of the last release that succeeded."""
    inventory: ResourceInventory | None = None
    """Objects of the release."""
