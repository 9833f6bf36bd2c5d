"""What a HelmRelease says about single Helm actions: install, upgrade, test, roll back, uninstall.

The structs are the same in every version of the group unless that version's module says otherwise.
"""

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta, field

from crds import meta
from crds.rules import Rule

CrdsPolicy: TypeAlias = Literal["Skip", "Create", "CreateReplace"]
ApplyMode: TypeAlias = Annotated[
    Literal["enabled", "disabled", "auto"], Meta(extra_json_schema=meta.IMPLIED)
]

_RETRY_INTERVAL: Final = "5m"


class Strategy(meta.ApiStruct, frozen=True, kw_only=True):
    """What to do after the action failed."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
            ".retryInterval can only be set when .name is 'RetryOnFailure'",
        ),
    )

    name: Literal["RemediateOnFailure", "RetryOnFailure"]
    """`RemediateOnFailure` does what remediation says, `RetryOnFailure` leaves the failed release
    in place and upgrades it again after retryInterval."""
    retry_interval: meta.Duration = ""
    """How long to wait before the next attempt. Defaults to 5m. Only for `RetryOnFailure`."""

    @property
    def retry_seconds(self) -> float:
        """Return the time to wait before the next attempt."""
        return meta.interval_seconds(self.retry_interval or _RETRY_INTERVAL)


class InstallStrategy(Strategy, frozen=True, kw_only=True):
    """What to do after an installation failed."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
            ".retryInterval cannot be set when .name is 'RemediateOnFailure'",
        ),
    )


class InstallRemediation(meta.ApiStruct, frozen=True, kw_only=True):
    """How often to install again; the failed release is uninstalled before each attempt."""

    retries: int = 0
    """Attempts after the first one. A negative number stands for no limit."""
    ignore_test_failures: bool | None = None
    """Let the release stand when its tests fail. Defaults to test.ignoreFailures."""
    remediate_last_failure: bool | None = None
    """Uninstall the release after the last attempt as well. Defaults to false."""


class UpgradeRemediation(meta.ApiStruct, frozen=True, kw_only=True):
    """How often to upgrade again, and what happens before each attempt."""

    retries: int = 0
    """Attempts after the first one. A negative number stands for no limit."""
    ignore_test_failures: bool | None = None
    """Let the release stand when its tests fail. Defaults to test.ignoreFailures."""
    remediate_last_failure: bool | None = None
    """Remediate after the last attempt as well. Defaults to true if retries is positive."""
    strategy: Annotated[Literal["rollback", "uninstall"], Meta(extra_json_schema=meta.IMPLIED)] = (
        "rollback"
    )
    """`rollback` goes back to the last release that worked, `uninstall` removes the release."""


class SameAction(meta.ApiStruct, frozen=True, kw_only=True):
    """What installing and upgrading have in common in every version."""

    timeout: meta.Duration = ""
    """How long the action, and each hook of it, may take. Defaults to the timeout of the
    HelmRelease."""
    disable_wait: bool = False
    """Report success without waiting for the objects to become healthy."""
    disable_wait_for_jobs: bool = False
    """Wait for the objects, but not for Jobs to complete."""
    disable_hooks: bool = False
    """Run no hooks."""
    disable_open_api_validation: bool = field(name="disableOpenAPIValidation", default=False)
    """Accepted and without effect where the API server validates: server-side apply always does."""


class SameInstall(SameAction, frozen=True, kw_only=True):
    """What installing takes in every version."""

    remediation: InstallRemediation | None = None
    """What to do after a failure."""
    replace: bool = False
    """Take the name of a release that was deleted and is still in the history."""
    skip_crds: bool = field(name="skipCRDs", default=False)
    """Deprecated: use crds. Do not install the chart's CRDs."""
    crds: Annotated[CrdsPolicy, Meta(extra_json_schema=meta.IMPLIED)] = "Create"
    """What to do with the CRDs in the chart's crds directory: `Create` those that do not exist,
    `CreateReplace` to update the existing ones as well, `Skip` to leave them alone. They are never
    deleted."""
    create_namespace: bool = False
    """Create the target namespace if it does not exist. It is not deleted with the release."""


class Install(SameInstall, frozen=True, kw_only=True):
    """How to install."""

    disable_schema_validation: bool = False
    """Do not validate the values against the chart's values.schema.json."""
    disable_take_ownership: bool = False
    """Refuse objects that exist and do not belong to the release, instead of adopting them."""
    strategy: InstallStrategy | None = None
    """What to do after a failure. Defaults to `RemediateOnFailure`."""
    server_side_apply: bool | None = None
    """Apply on the server. Defaults to true."""


class SameUpgrade(SameAction, frozen=True, kw_only=True):
    """What upgrading takes in every version."""

    remediation: UpgradeRemediation | None = None
    """What to do after a failure."""
    force: bool = False
    """Replace objects (`PUT`) instead of patching them, so fields that the chart does not set are
    lost. Replaced objects are not applied on the server."""
    preserve_values: bool = False
    """Merge the values into those of the last release instead of the chart's. The result then
    depends on what was there before."""
    cleanup_on_fail: bool = False
    """Delete objects that a failed upgrade created."""
    crds: Annotated[CrdsPolicy, Meta(extra_json_schema=meta.IMPLIED)] = "Skip"
    """What to do with the CRDs in the chart's crds directory: `Create` those that do not exist,
    `CreateReplace` to update the existing ones as well, `Skip` to leave them alone. They are never
    deleted."""


class Upgrade(SameUpgrade, frozen=True, kw_only=True):
    """How to upgrade."""

    disable_schema_validation: bool = False
    """Do not validate the values against the chart's values.schema.json."""
    disable_take_ownership: bool = False
    """Refuse objects that exist and do not belong to the release, instead of adopting them."""
    strategy: Strategy | None = None
    """What to do after a failure. Defaults to `RemediateOnFailure`."""
    server_side_apply: ApplyMode = "auto"
    """Apply on the server: `enabled`, `disabled`, or `auto` for the way that the last release was
    applied."""
    chart_name_change_strategy: Annotated[
        Literal["InPlaceUpdate", "Reinstall"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "Reinstall"
    """What to do when the chart has another name: `Reinstall` uninstalls the release first,
    `InPlaceUpdate` upgrades it."""


class TestFilter(meta.ApiStruct, frozen=True, kw_only=True):
    """Selects a test of the chart."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]
    """Name of the test."""
    exclude: bool = False
    """Leave it out. Otherwise run it, and none that is not listed."""


class SameTest(meta.ApiStruct, frozen=True, kw_only=True):
    """What testing takes in every version."""

    enable: bool = False
    """Run the chart's tests after each installation and upgrade."""
    timeout: meta.Duration = ""
    """How long each test may take. Defaults to the timeout of the HelmRelease."""
    ignore_failures: bool = False
    """Let the release stand when its tests fail."""


class Test(SameTest, frozen=True, kw_only=True):
    """How to test."""

    filters: list[TestFilter] = field(default_factory=list)
    """Tests to run or to leave out. Defaults to all."""


class SameRollback(meta.ApiStruct, frozen=True, kw_only=True):
    """What rolling back takes in every version."""

    timeout: meta.Duration = ""
    """How long the action, and each hook of it, may take. Defaults to the timeout of the
    HelmRelease."""
    disable_wait: bool = False
    """Report success without waiting for the objects to become healthy."""
    disable_wait_for_jobs: bool = False
    """Wait for the objects, but not for Jobs to complete."""
    disable_hooks: bool = False
    """Run no hooks."""
    recreate: bool = False
    """Deprecated: accepted and without effect, as in Helm 4. It restarted Pods."""
    force: bool = False
    """Replace objects instead of patching them. Without effect under server-side apply."""
    cleanup_on_fail: bool = False
    """Delete objects that a failed rollback created."""


class Rollback(SameRollback, frozen=True, kw_only=True):
    """How to roll back."""

    server_side_apply: ApplyMode = "auto"
    """Apply on the server: `enabled`, `disabled`, or `auto` for the way that the last release was
    applied."""


class Uninstall(meta.ApiStruct, frozen=True, kw_only=True):
    """How to uninstall."""

    timeout: meta.Duration = ""
    """How long the action, and each hook of it, may take. Defaults to the timeout of the
    HelmRelease."""
    disable_hooks: bool = False
    """Run no hooks."""
    keep_history: bool = False
    """Keep the record of the release, marked as uninstalled."""
    disable_wait: bool = False
    """Report success without waiting until the objects are gone."""
    deletion_propagation: Literal["background", "foreground", "orphan"] = "background"
    """How the objects' dependents are deleted."""
