"""Apply the HelmChart of ``spec.chart``, and delete a HelmChart that is no longer needed.

The controller writes HelmCharts with its own identity, because they are in the namespace of the
source, where the tenant may have no permissions. So it never changes a HelmChart of another owner
(``charttemplate``): if one has the name, the HelmChart gets another name. The number of HelmCharts
for the HelmReleases of one namespace is bounded (``chartcounts``). Users who may write HelmCharts
there must not choose the chart of a release: a spec that differs from the template is corrected,
and not used in the meantime (``sources``).

Most HelmCharts are ready a moment after they were applied. Until then the status, which names the
HelmChart, is not written. ``made`` holds its name in the meantime.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from controllers.helm.chartcounts import ChartCounts
from controllers.helm.deciding import charttemplate
from controllers.helm.deciding.orders import MANAGER
from controllers.helm.running.draft import Draft
from controllers.helm.sources import ChartReader
from crds import HELM_CHART
from crds.helm import HelmRelease
from crds.source_helm import HelmChart
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.client import Client
from toolkit.kube.errors import ConflictError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

GVK: Final = GroupVersionKind(*HELM_CHART.gvk)
_REASON: Final = "HelmChartNotReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """Writes HelmCharts; ``lookup`` reads them from the informer."""

    client: Client
    reader: ChartReader
    lookup: Callable[[ObjectKey], HelmChart | None]
    counts: ChartCounts
    made: dict[ObjectKey, ObjectKey] = field(default_factory=dict)

    async def reconcile(self, draft: Draft) -> bool:
        """Delete a stale HelmChart, then create or change the desired one.

        Returns whether the desired HelmChart was created or changed.

        Raises:
            AccessDeniedError: no grant allows the reference to the source, or the HelmChart belongs
                to another owner under both names.
            WaitingError: there are too many HelmCharts for the namespace of the HelmRelease.
            ApiError: the HelmChart cannot be written.
        """
        made = self.made.get(draft.rec.key)
        if made and draft.obj.status.helm_chart != str(made):
            draft.note({"helmChart": str(made)})
        if stale := charttemplate.stale(draft.obj):
            await self._delete(draft, stale)
            self.made.pop(draft.rec.key, None)
        place, wanted = charttemplate.key(draft.obj), charttemplate.desired(draft.obj)
        if place is None or wanted is None or draft.obj.metadata.deletion_timestamp:
            return False
        self.reader.require_granted(draft.obj)
        seen = self.lookup(place)
        changed = False
        if seen is None or not charttemplate.stands(seen, wanted):
            place, changed = await self._make(draft, place)
            self.made[draft.rec.key] = place
        if draft.obj.status.helm_chart != str(place):
            draft.note({"helmChart": str(place)})
        return changed

    def forget(self, owner: ObjectKey) -> None:
        """Drop the name of the HelmChart of a deleted HelmRelease."""
        self.made.pop(owner, None)

    async def _make(self, draft: Draft, place: ObjectKey) -> tuple[ObjectKey, bool]:
        """Return the HelmChart that was applied, and whether that has changed it.

        If another owner has a HelmChart of that name, the status tells the other name.
        """
        live, other = await self._live(place), charttemplate.other_key(draft.obj)
        if live is not None and other and not charttemplate.owned(live, draft.obj):
            draft.note({"helmChart": str(other)})
            place, live = other, await self._live(other)
        charttemplate.require_owned(live, draft.obj)
        if live is None:
            self.counts.take(draft.obj, place)
        try:
            return place, await self._apply(draft, place, live)
        except PenstockError:
            if live is None:
                self.counts.give_back(draft.obj, place)
            raise

    async def _apply(self, draft: Draft, place: ObjectKey, live: Json | None) -> bool:
        wanted = charttemplate.desired(draft.obj)
        if wanted is None:
            return False
        applied = await self.client.apply(wanted, manager=MANAGER)
        written = await self._corrected(place, applied.object, wanted)
        if live is not None and _version(live) == _version(written):
            return False
        template = draft.obj.spec.chart
        if template is not None:
            action = "created" if applied.created else "configured"
            message = charttemplate.applied_message(action, place, template)
            draft.rec.event("trace", f"HelmChart{action.capitalize()}", message)
        return True

    async def _corrected(self, place: ObjectKey, applied: Json, wanted: Json) -> Json:
        """Remove the fields that other field managers have added to the spec of a HelmChart.

        An apply sets only the fields of the template, and leaves the others as they are.
        """
        if not charttemplate.differs(msgspec.convert(applied, HelmChart), wanted):
            return applied
        body = [{"op": "replace", "path": "/spec", "value": wanted["spec"]}]
        return await self.client.patch(
            GVK, place.name, place.namespace, body, strategy="json", manager=MANAGER
        )

    async def _delete(self, draft: Draft, place: ObjectKey) -> None:
        live = await self._ours(place, draft.obj)
        try:
            charttemplate.require_owned(live, draft.obj)
            if live is not None:
                uid = str(dig(live, "metadata", "uid", default=""))
                await self.client.delete(GVK, place.name, place.namespace, uid=uid)
                draft.rec.event("trace", "HelmChartDeleted", charttemplate.deleted_message(place))
        except (NotFoundError, ConflictError):
            pass  # Another client has deleted or replaced it.
        except TransientError as error:
            raise error.within(f"failed to delete HelmChart '{place}'", reason=_REASON) from error
        except PenstockError as error:
            # The HelmChart belongs to another owner, so it stays.
            draft.rec.log.info(str(error))
        draft.note({"helmChart": None})

    async def _ours(self, place: ObjectKey, obj: HelmRelease) -> Json | None:
        """Return the HelmChart: from the informer if its labels name the owner, else a live read.

        The copy of the informer is safe, because the deletion names the UID of that object.
        """
        seen = self.lookup(place)
        shown = msgspec.to_builtins(seen) if seen else {}
        return shown if charttemplate.labelled(shown, obj) else await self._live(place)

    async def _live(self, place: ObjectKey) -> Json | None:
        try:
            return await self.client.get(GVK, place.name, place.namespace)
        except NotFoundError:
            return None


def _version(obj: Json) -> str:
    return str(dig(obj, "metadata", "resourceVersion", default=""))
