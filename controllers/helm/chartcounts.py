"""How many HelmCharts the HelmReleases of one namespace have in another namespace, and the limit.

The controller makes HelmCharts in the namespace of the source, where no quota of the tenant counts.
So it counts them by the namespace of their HelmReleases, and makes no more than the limit. It
counts the HelmCharts of each namespace of sources apart: who may write HelmCharts there can also
write labels, and must not use up what others may have elsewhere.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from crds.helm import OWNER_NAME, OWNER_NAMESPACE, HelmRelease, chart_names
from crds.source_helm import HelmChart
from toolkit.errors import WaitingError
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey

REASON: Final = "HelmChartLimitExceeded"

_Count = Callable[[set[str], str], None]


class ChartCounts:
    """Counts HelmCharts as the watch shows them, and those that were made a moment ago.

    A ``limit`` of 0 is none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def saw(self, change: Change[HelmChart]) -> None:
        """Note that a HelmChart was made, changed or deleted."""
        for found, count in ((change.old, set.discard), (change.new, set.add)):
            if found is not None and (owner := _owner(found)):
                self._count(owner, change.key, count)

    def take(self, obj: HelmRelease, place: ObjectKey) -> None:
        """Count a HelmChart that is about to be made.

        Raises:
            WaitingError: there are too many already.
        """
        own = obj.metadata.namespace
        if own == place.namespace:
            return
        number = len(self._known.get((own, place.namespace), ()))
        if self._limit and number >= self._limit:
            raise WaitingError(
                f"the HelmReleases of namespace '{own}' have {number} HelmCharts in namespace"
                f" '{place.namespace}', which is the limit: delete HelmReleases, let several of"
                " them use one HelmChart or OCIRepository (spec.chartRef), or have the limit raised"
                " (--helm-charts-per-namespace)",
                reason=REASON,
                retry_after=obj.spec.interval_seconds,
            )
        self._count(own, place, set.add)

    def give_back(self, obj: HelmRelease, place: ObjectKey) -> None:
        """Uncount a HelmChart that could not be made."""
        self._count(obj.metadata.namespace, place, set.discard)

    def _count(self, owner: str, place: ObjectKey, count: _Count) -> None:
        if owner == place.namespace:
            return
        pair = (owner, place.namespace)
        count(self._known[pair], place.name)
        if not self._known[pair]:
            del self._known[pair]


def _owner(found: HelmChart) -> str:
    """Return the namespace of the HelmRelease that a HelmChart was made for; empty if for none."""
    labels = found.metadata.labels
    namespace, name = labels.get(OWNER_NAMESPACE, ""), labels.get(OWNER_NAME, "")
    names = chart_names(namespace=namespace, name=name)
    return namespace if found.metadata.name in names else ""
