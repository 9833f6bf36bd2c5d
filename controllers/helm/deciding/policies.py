"""The rules of the spec for failures: how often to try again, and how to remediate in between.

As in Flux (``GetActiveRemediation``, ``GetActiveRetry``), None means that no release was attempted
yet. Such a release is upgraded in any state.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from crds import meta
from crds.helm import HelmRelease
from crds.helm_actions import Strategy
from crds.helm_status import ReleaseAction

Way: TypeAlias = Literal["rollback", "uninstall"]

_RETRY: Final = "RetryOnFailure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """The remediation of a failed action, and the number of its failures.

    ``retries`` below zero means no limit. ``last``: remediate also if no retries are left.
    """

    way: Way
    retries: int
    failures: int
    last: bool
    ignores_tests: bool

    @property
    def exhausted(self) -> bool:
        """Tell whether there are no attempts left."""
        return 0 <= self.retries < self.failures


def remediation(obj: HelmRelease, action: ReleaseAction) -> Remediation:
    """Return the remediation after an action fails."""
    ignored = ignores_tests(obj)
    if action == "install":
        said = obj.spec.install and obj.spec.install.remediation
        return Remediation(
            way="uninstall",
            retries=said.retries if said else 0,
            failures=obj.status.install_failures,
            last=bool(said and said.remediate_last_failure),
            ignores_tests=_given(said.ignore_test_failures if said else None, ignored),
        )
    upgrade = obj.spec.upgrade and obj.spec.upgrade.remediation
    retries = upgrade.retries if upgrade else 0
    return Remediation(
        way=upgrade.strategy if upgrade else "rollback",
        retries=retries,
        failures=obj.status.upgrade_failures,
        last=_given(upgrade.remediate_last_failure if upgrade else None, retries > 0),
        ignores_tests=_given(upgrade.ignore_test_failures if upgrade else None, ignored),
    )


def active(obj: HelmRelease) -> Remediation | None:
    """Return the remediation of the action that was attempted last; None before any attempt."""
    action = obj.status.last_attempted_release_action
    return remediation(obj, action) if action else None


def retry_seconds(obj: HelmRelease, *, by_default: bool = False) -> float | None:
    """Return the seconds before the last action is tried again without remediation.

    None means that the spec asks for remediation, or that no action was attempted. ``by_default``
    is the feature gate ``DefaultToRetryOnFailure``.
    """
    action = obj.status.last_attempted_release_action
    return retry_after(obj, action, by_default=by_default) if action else None


def retry_after(
    obj: HelmRelease, action: ReleaseAction, *, by_default: bool = False
) -> float | None:
    """Return the seconds before a failed action is tried again without remediation, or None."""
    said = obj.spec.install if action == "install" else obj.spec.upgrade
    strategy: Strategy | None = said.strategy if said else None
    if strategy is None and by_default:
        strategy = Strategy(name=_RETRY)
    return strategy.retry_seconds if strategy and strategy.name == _RETRY else None


def tests(obj: HelmRelease) -> bool:
    """Tell whether the chart's tests run after each installation and upgrade."""
    return bool(obj.spec.test and obj.spec.test.enable)


def ignores_tests(obj: HelmRelease) -> bool:
    """Tell whether failed tests do not fail the release; the spec of an action may override it."""
    return bool(obj.spec.test and obj.spec.test.ignore_failures)


def drift_mode(obj: HelmRelease) -> Literal["enabled", "warn", "disabled"]:
    """Return the mode of drift detection."""
    return obj.spec.drift_detection.mode if obj.spec.drift_detection else "disabled"


def timeout_seconds(obj: HelmRelease, action: str) -> float:
    """Return the timeout of an action in seconds; ``spec.timeout`` if the action has none."""
    said = {
        "install": obj.spec.install,
        "upgrade": obj.spec.upgrade,
        "test": obj.spec.test,
        "rollback": obj.spec.rollback,
        "uninstall": obj.spec.uninstall,
    }.get(action)
    own = said.timeout if said else ""
    return meta.timeout_seconds(own) if own else obj.spec.timeout_seconds


def _given(value: bool | None, default: bool) -> bool:  # noqa: FBT001 - a field of the spec
    return default if value is None else value
