"""From an event to the deliveries that Alerts ask for.

Alerts are looked up by the kind and namespace of the object. Labels are asked of the API server,
once an event, and only where a selector has some. An Alert gets events of another namespace only
where a ReferenceGrant there lets it, as for every reference.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from controllers.notification import followed
from controllers.notification.events import matching
from controllers.notification.events.duplicates import Duplicates
from controllers.notification.events.effort import Effort
from controllers.notification.events.event import Event
from controllers.notification.events.spool import Delivery, Spool
from crds import ALERT
from crds.notification import Alert, ObjectSelector
from toolkit import telemetry
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NoMatchError, NotFoundError
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References

logger = logging.getLogger(__name__)

_ALERT: Final = GroupVersionKind(*ALERT.gvk)


class Changes(Protocol):
    """Tells of Alerts: an informer."""

    def subscribe(self, handler: Callable[[Change[Alert]], None]) -> None:
        """Tell ``handler`` of each change."""


class Alerts:
    """The Alerts by kind and namespace of the objects that they select."""

    def __init__(self, informer: Changes) -> None:
        self._places: dict[ObjectKey, set[tuple[str, str]]] = {}
        self._found: defaultdict[tuple[str, str], dict[ObjectKey, Alert]] = defaultdict(dict)
        informer.subscribe(self._changed)

    def of(self, kind: str, namespace: str) -> Sequence[Alert]:
        """Return the Alerts with a selector for the kind in the namespace."""
        return tuple(self._found.get((kind, namespace), {}).values())

    def _changed(self, change: Change[Alert]) -> None:
        for place in self._places.pop(change.key, ()):
            self._found[place].pop(change.key, None)
            if not self._found[place]:
                del self._found[place]
        if change.new is None or change.new.metadata.deletion_timestamp:
            return
        own = change.key.namespace
        sources = change.new.spec.event_sources
        places: set[tuple[str, str]] = {(each.kind, each.namespace or own) for each in sources}
        self._places[change.key] = places
        for place in places:
            self._found[place][change.key] = change.new


class Intake:
    """Takes events; ``take`` tells which Providers have something to send."""

    def __init__(
        self,
        *,
        client: Client,
        alerts: Alerts,
        policy: References,
        spool: Spool,
        duplicates: Duplicates,
    ) -> None:
        self._client = client
        self._alerts = alerts
        self._policy = policy
        self._spool = spool
        self._duplicates = duplicates
        self._closed = False

    def close(self) -> None:
        """Take no more events: nobody would send them from here."""
        self._closed = True

    async def take(self, event: Event) -> Sequence[ObjectKey] | None:
        """Keep what Alerts want of an event; return for which Providers, None for a duplicate.

        Raises:
            TransientError: it cannot be kept now; it may be sent again.
        """
        if self._closed:
            raise TransientError("this replica is stopping")
        if self._duplicates.seen(event):
            return None
        try:
            deliveries = await self._deliveries(event)
            if deliveries:
                await self._spool.add(deliveries)
        except PenstockError:
            self._duplicates.forget(event)
            raise
        return [each.provider for each in deliveries]

    async def _deliveries(self, event: Event) -> list[Delivery]:
        """Return what Alerts want, of each namespace as much as may be made (``effort``)."""
        effort, found = Effort(), []
        told: Event | None = None
        for alert in await self._wanting(event, effort):
            namespace = alert.metadata.namespace
            if not effort.left(namespace):
                continue
            told = told or matching.hidden(event)
            with effort.of(namespace):
                found.append(_delivery(told, alert))
            await asyncio.sleep(0)
        for namespace in sorted(effort.late):
            telemetry.EVENTS_DROPPED.labels("alert").inc()
            logger.warning(
                "event withheld: the Alerts of the namespace take too long",
                extra={"namespace": namespace, "object": str(event.involved_object)},
            )
        return found

    async def _wanting(self, event: Event, effort: Effort) -> list[Alert]:
        about = event.involved_object
        labels: Mapping[str, str] | None = None
        found = []
        for alert in self._alerts.of(about.kind, about.namespace):
            chosen = self._chosen(alert, event, effort)
            await asyncio.sleep(0)  # the patterns of a tenant take their time
            if not chosen:
                continue
            if all(matching.needs_labels(each) for each in chosen):
                labels = await self._labels(about.ref) if labels is None else labels
                if not any(matching.has_labels(each, labels) for each in chosen):
                    continue
            found.append(alert)
        return found

    def _chosen(self, alert: Alert, event: Event, effort: Effort) -> list[ObjectSelector]:
        """Return the selectors that mean the object, if the Alert wants the event."""
        namespace = alert.metadata.namespace
        if alert.spec.suspend or not effort.left(namespace):
            return []
        try:
            with effort.of(namespace) as until:
                wanted = matching.wants(alert, event, until=until)
                return self._selectors(alert, event) if wanted else []
        except matching.TooLongError:
            effort.late.add(namespace)
            return []

    def _selectors(self, alert: Alert, event: Event) -> list[ObjectSelector]:
        """Return the selectors that mean the object, if the Alert may hear of it."""
        meta = alert.metadata
        sources = alert.spec.event_sources
        found = [each for each in sources if matching.selects(each, meta.namespace, event)]
        allowed = {
            name: self._allowed(alert, event, name) for name in {each.name for each in found}
        }
        return [each for each in found if allowed[each.name]]

    def _allowed(self, alert: Alert, event: Event, name: str) -> bool:
        """Tell whether an Alert may hear of the objects of a name; one of ``*`` of all of them."""
        target, meta = event.involved_object.ref, alert.metadata
        if target.namespace == meta.namespace:
            return True
        # a grant for all objects of the kind is needed for all
        target = ObjectRef(target.gvk, target.namespace, name)
        holder = ObjectRef(_ALERT, meta.namespace, meta.name)
        error = self._policy.denial(holder, target)
        if error is None or not self._policy.refuses(error):
            return True
        logger.info("event withheld", extra={"alert": str(holder), "why": str(error)})
        return False

    async def _labels(self, ref: ObjectRef) -> Mapping[str, str]:
        """Return the labels of an object; none where it is gone, or its kind is unknown."""
        gvk = followed.KINDS.get(ref.gvk.kind)
        if gvk is None:
            return {}
        try:
            obj = await self._client.get(gvk, ref.name, ref.namespace)
        except (NotFoundError, NoMatchError):
            return {}
        except ApiError as exc:
            raise TransientError(f"labels of {ref} cannot be read: {exc}") from exc
        return dict(obj["metadata"].get("labels") or {})


def _delivery(event: Event, alert: Alert) -> Delivery:
    told = matching.notice(alert, event, "")
    return Delivery(
        provider=ObjectKey(alert.metadata.namespace, alert.spec.provider_ref.name),
        object=str(event.involved_object),
        since=time.time(),
        notice=msgspec.json.encode(told),
    )
