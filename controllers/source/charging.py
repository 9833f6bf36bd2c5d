"""The namespace whose storage quota the artifacts of a HelmChart count in.

The helm-controller makes a HelmChart in the namespace of the source, which may be shared. The
HelmRelease asked for the chart, so its namespace is charged. The labels of the HelmChart name the
HelmRelease, but everybody who may write HelmCharts can write these labels. So the HelmRelease is
read: it must name this HelmChart in its status, or in its spec together with its own name. Nobody
writes a HelmRelease into another namespace unless they may, so nobody charges another namespace.

If the HelmRelease is gone or does not want the HelmChart, nothing more is stored for it. Otherwise
a tenant could suspend a HelmRelease, so that its HelmChart stays, and delete it.
"""

from collections import OrderedDict
from typing import Final, Protocol

from crds import HELM_RELEASE
from crds.helm import OWNER_NAME, OWNER_NAMESPACE, chart_name, chart_names
from crds.source_helm import HelmChart
from toolkit.errors import TransientError
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig, key_of

REASON: Final = "OwnerNotFound"

_KIND: Final = GroupVersionKind(*HELM_RELEASE.gvk)
_REMEMBERED: Final = 16_384


class Reader(Protocol):
    """Reads objects from the API server."""

    async def get(self, gvk: GroupVersionKind, name: str, namespace: str = "") -> Json:
        """Return an object. Raises ``NotFoundError``, ``NoMatchError``."""
        ...


class Charging:
    """Finds who asked for HelmCharts; costs one request for each generation of a HelmChart."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: OrderedDict[tuple[str, int, ObjectKey], None] = OrderedDict()

    async def account(self, obj: HelmChart) -> str:
        """Return the namespace to charge.

        Raises:
            TransientError: the labels name a HelmRelease of another namespace that does not exist
                or does not want this HelmChart; or the API server does not answer.
        """
        meta = obj.metadata
        owner = ObjectKey(meta.labels.get(OWNER_NAMESPACE, ""), meta.labels.get(OWNER_NAME, ""))
        # Only the helm-controller names a HelmChart so. A copy under another name is its author's.
        names = chart_names(namespace=owner.namespace, name=owner.name)
        made = owner.namespace and meta.name in names
        if not made or owner.namespace == meta.namespace:
            return meta.namespace
        known = (meta.uid, meta.generation, owner)
        if known not in self._known:
            await self._require_wanted(ObjectKey(meta.namespace, meta.name), owner)
            self._known[known] = None
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return owner.namespace

    async def _require_wanted(self, chart: ObjectKey, owner: ObjectKey) -> None:
        try:
            release = await self._reader.get(_KIND, owner.name, owner.namespace)
        except (NotFoundError, NoMatchError) as exc:
            raise _unwanted(chart, owner, "does not exist") from exc
        if not _wants(release, chart):
            raise _unwanted(chart, owner, "does not use it")


def _wants(release: Json, chart: ObjectKey) -> bool:
    """Tell whether a HelmRelease, whose key the name of the HelmChart consists of, has made it.

    A HelmChart that has not the name as in Flux is named in the status before it is needed.
    """
    if dig(release, "status", "helmChart") == str(chart):
        return True
    own = key_of(release)
    if chart.name != chart_name(namespace=own.namespace, name=own.name):
        return False
    source = dig(release, "spec", "chart", "spec", "sourceRef")
    return source is not None and bool(
        (source.get("namespace") or own.namespace) == chart.namespace
    )


def _unwanted(chart: ObjectKey, owner: ObjectKey, why: str) -> TransientError:
    return TransientError(
        f"HelmRelease '{owner}', which the labels of HelmChart '{chart}' name as its owner, {why}, "
        "so there is no namespace to charge for what is stored: delete the HelmChart, or remove "
        f"its labels '{OWNER_NAME}' and '{OWNER_NAMESPACE}' to charge its own namespace",
        reason=REASON,
    )
