"""What the spec says about failures: how often to try again, and what happens in between.

``None`` stands for an object whose release was never attempted, as in Flux
(``GetActiveRemediation``, ``GetActiveRetry``): it is upgraded, whatever state it is in.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from crds.helm import HelmRelease
from crds.helm_actions import Strategy
from crds.helm_status import ReleaseAction
from crds.meta import parse_duration

Way: TypeAlias = Literal["rollback", "uninstall"]

_RETRY: Final = "RetryOnFailure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """What applies after a failed action, and how often it has failed.

    ``retries`` below zero stands for no limit. ``last``: remediate when no retries remain.
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
    """Return what applies after the action."""
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
    """Return what applies after the action that was attempted last."""
    action = obj.status.last_attempted_release_action
    return remediation(obj, action) if action else None


def retry_seconds(obj: HelmRelease, *, by_default: bool = False) -> float | None:
    """Return after how long the last action is tried again in place; None where it is remediated.

    ``by_default`` is the gate ``DefaultToRetryOnFailure``.
    """
    action = obj.status.last_attempted_release_action
    return retry_after(obj, action, by_default=by_default) if action else None


def retry_after(
    obj: HelmRelease, action: ReleaseAction, *, by_default: bool = False
) -> float | None:
    """Return after how long a failed action is tried again in place; None if it is not."""
    said = obj.spec.install if action == "install" else obj.spec.upgrade
    strategy: Strategy | None = said.strategy if said else None
    if strategy is None and by_default:
        strategy = Strategy(name=_RETRY)
    return strategy.retry_seconds if strategy and strategy.name == _RETRY else None


def tests(obj: HelmRelease) -> bool:
    """Tell whether the chart's tests run after each installation and upgrade."""
    return bool(obj.spec.test and obj.spec.test.enable)


def ignores_tests(obj: HelmRelease) -> bool:
    """Tell whether the release stands when its tests fail, unless the action says otherwise."""
    return bool(obj.spec.test and obj.spec.test.ignore_failures)


def drift_mode(obj: HelmRelease) -> Literal["enabled", "warn", "disabled"]:
    """Return what to do about differences of the cluster."""
    return obj.spec.drift_detection.mode if obj.spec.drift_detection else "disabled"


def timeout_seconds(obj: HelmRelease, action: str) -> float:
    """Return the deadline of an action, named as in the spec; others have the common one."""
    said = {
        "install": obj.spec.install,
        "upgrade": obj.spec.upgrade,
        "test": obj.spec.test,
        "rollback": obj.spec.rollback,
        "uninstall": obj.spec.uninstall,
    }.get(action)
    own = said.timeout if said else ""
    return parse_duration(own) if own else obj.spec.timeout_seconds


def _given(value: bool | None, default: bool) -> bool:  # noqa: FBT001 - as the fields stand there
    return default if value is None else value
