"""The target of a release: name and namespaces. Pure.

If the target changes, the controller uninstalls the old release first.
"""

from typing import Final

from controllers.helm.deciding import snapshots
from crds.helm import HelmRelease
from toolkit.release import names

CHART: Final = "chart name"
"""The part of the target that does not come from the HelmRelease."""


def release_name(obj: HelmRelease) -> str:
    """Return the name of the release."""
    return names.release_name(
        obj.metadata.name,
        chosen=obj.spec.release_name,
        target_namespace=obj.spec.target_namespace,
    )


def release_namespace(obj: HelmRelease) -> str:
    """Return the namespace to which the release is deployed."""
    return obj.spec.target_namespace or obj.metadata.namespace


def storage_namespace(obj: HelmRelease) -> str:
    """Return the namespace of the records of the release."""
    return obj.spec.storage_namespace or obj.metadata.namespace


def changed(obj: HelmRelease, chart_name: str) -> str:
    """Return the part of the target that has changed since the last release; empty if none has.

    Another chart name is another target, unless ``upgrade.chartNameChangeStrategy`` is
    ``InPlaceUpdate``.
    """
    current = snapshots.latest(obj.status.history)
    if current is None or not obj.status.storage_namespace:
        return ""
    upgrade = obj.spec.upgrade
    in_place = upgrade is not None and upgrade.chart_name_change_strategy == "InPlaceUpdate"
    differences = (
        (storage_namespace(obj) != obj.status.storage_namespace, "storage namespace"),
        (release_namespace(obj) != current.namespace, "release namespace"),
        (release_name(obj) != current.name, "release name"),
        (chart_name != current.chart_name and not in_place, CHART),
    )
    return next((what for differs, what in differences if differs), "")
