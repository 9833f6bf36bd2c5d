"""The event recorder: core/v1 Events for ``kubectl describe``, and POSTs to a notification service.

Callers never wait: events go through bounded queues. If a queue is full, its oldest events are
counted and dropped. Events wait while the notification service restarts (``forwarding``). A
repeated event only raises the count of the existing Event (client-go ``EventCorrelator``), so a
failing object does not fill etcd. ``trace`` events are not sent to the notification service.
"""

import asyncio
import datetime as dt
import hashlib
import logging
import os
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, Literal

import msgspec

from toolkit import telemetry
from toolkit.forwarding import MOST, Forwarder
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.kube.reconciliation import Event
from toolkit.objects import GroupVersionKind, Json

logger = logging.getLogger(__name__)

_EVENT: Final = GroupVersionKind("", "v1", "Event")
_DEFAULT: Final = "default"
"""Namespace of the Events about cluster-scoped objects."""
_MESSAGE_LIMIT: Final = 1024
_CAPACITY: Final = 1000
_REMEMBERED: Final = 4096
_FLUSH_SECONDS: Final = 5.0
_METADATA_PREFIX: Final = "event.toolkit.fluxcd.io/"


class Recorder:
    """Emits events of one controller. ``run`` it as a service of the manager."""

    def __init__(self, client: Client, *, controller: str, address: str = "") -> None:
        self._controller = controller
        self._instance = os.uname().nodename
        self._cluster = _Sink("cluster", _ClusterEvents(client, controller, self._instance).send)
        self._forwarder = forwarder = Forwarder(address, self._encode) if address else None
        self._notifier = forwarder and _Sink(
            "notification", forwarder.send, most=MOST, pause=forwarder.pause
        )

    def emit(self, event: Event) -> None:
        """Queue one event; never waits, never fails."""
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if event.cluster:
            self._cluster.put((event, now))
        if self._notifier and event.severity != "trace":
            self._notifier.put((event, now))

    async def run(self) -> None:
        """Send until cancelled; then spend a few seconds on events that are still queued."""
        async with AsyncExitStack() as stack:
            if self._forwarder:
                await stack.enter_async_context(self._forwarder.opened())
            async with asyncio.TaskGroup() as group:
                for sink in (self._cluster, self._notifier):
                    if sink:
                        group.create_task(sink.run())

    def _encode(self, queued: "Queued") -> bytes:
        event, when = queued
        body = _notification(event, when, controller=self._controller, instance=self._instance)
        return msgspec.json.encode(body)


Queued = tuple[Event, str]
"""An event and when it happened."""


class _Sink:
    """A bounded queue before a slow receiver; ``send`` removes finished events from its list.

    ``pause`` is the time in seconds for which further events are collected into one call.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[list[Queued]], Awaitable[None]],
        *,
        most: int = 1,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._name = name
        self._send = send
        self._most = most
        self._pause = pause
        self._queue: asyncio.Queue[Queued] = asyncio.Queue(_CAPACITY)
        self._sending: list[Queued] = []

    def put(self, queued: Queued) -> None:
        if self._queue.full():
            # The newest tell the state that objects are in.
            self._queue.get_nowait()
            telemetry.EVENTS_DROPPED.labels(self._name).inc()
        self._queue.put_nowait(queued)

    async def run(self) -> None:
        try:
            while True:
                self._sending.append(await self._queue.get())
                self._take()
                await self._send(self._sending)
                if pause := self._pause():
                    await asyncio.sleep(pause)
        except asyncio.CancelledError:
            await self._flush()
            raise

    async def _flush(self) -> None:
        """Send the remaining events, interrupted ones first, for at most a few seconds."""
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                self._take()
                while self._sending:
                    await self._send(self._sending)
                    self._take()
        except TimeoutError:
            left = self._queue.qsize() + len(self._sending)
            telemetry.EVENTS_DROPPED.labels(self._name).inc(left)

    def _take(self) -> None:
        """Take the waiting events that may be sent in one call."""
        while len(self._sending) < self._most and not self._queue.empty():
            self._sending.append(self._queue.get_nowait())


class _ClusterEvents:
    """Writes core/v1 Events, one object per distinct event."""

    def __init__(self, client: Client, controller: str, instance: str) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance
        self._recent: OrderedDict[bytes, tuple[str, str, int]] = OrderedDict()
        """Namespace, name and count of the Events, by the digest of what makes two events equal."""

    async def send(self, sending: list[Queued]) -> None:
        while sending:
            await self._record(*sending[0])
            del sending[0]

    async def _record(self, event: Event, when: str) -> None:
        identity = _identity(event)
        try:
            namespace, name, count = self._recent.pop(identity, ("", "", 0))
            if not (name and await self._again(namespace, name, count + 1, when)):
                (namespace, name), count = await self._create(event, when), 0
            self._recent[identity] = (namespace, name, count + 1)
        except errors.ApiError as exc:
            telemetry.EVENTS_DROPPED.labels("cluster").inc()
            logger.warning("event not written", extra={"object": str(event.ref), "error": str(exc)})
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)

    async def _again(self, namespace: str, name: str, count: int, when: str) -> bool:
        """Count a repeat of an Event; return False if the Event has expired in the meantime."""
        body: Json = {"count": count, "lastTimestamp": when}
        try:
            await self._client.patch(_EVENT, name, namespace, body, strategy="merge")
        except errors.NotFoundError:
            return False
        return True

    async def _create(self, event: Event, when: str) -> tuple[str, str]:
        """Create an Event; return its namespace and name.

        A namespace that is being deleted takes no Event. An error of an object in it is told about
        the Namespace, because something of the object may stay when both are gone.
        """
        name = f"{event.ref.name[:200]}.{uuid.uuid4().hex[:16]}"
        body = self._body(event, when)
        try:
            await self._client.create(_named(body, event.ref.namespace or _DEFAULT, name))
        except errors.ForbiddenError as error:
            if event.severity != "error" or not _ends(error):
                raise
        else:
            return event.ref.namespace or _DEFAULT, name
        about = {"apiVersion": "v1", "kind": "Namespace", "name": event.ref.namespace}
        told = {"involvedObject": about, "message": _cut(f"{event.ref}: {event.shown}")}
        await self._client.create(_named(body | told, _DEFAULT, name))
        return _DEFAULT, name

    def _body(self, event: Event, when: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"annotations": _metadata(event)},
            "involvedObject": _involved(event),
            "type": "Warning" if event.severity == "error" else "Normal",
            "reason": event.reason,
            "message": _cut(event.shown),
            "source": {"component": self._controller},
            "reportingComponent": self._controller,
            "reportingInstance": self._instance,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        }


def _named(body: Json, namespace: str, name: str) -> Json:
    return body | {"metadata": {**body["metadata"], "namespace": namespace, "name": name}}


def _ends(error: errors.ForbiddenError) -> bool:
    """Tell whether the namespace of a new object is being deleted (``NamespaceLifecycle``)."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


def _identity(event: Event) -> bytes:
    """Return a digest: thousands of events are remembered, and a message may have 32 KiB."""
    same = (event.meta.uid, str(event.ref), event.severity, event.reason, event.shown)
    return hashlib.blake2b("\0".join(same).encode(errors="surrogatepass"), digest_size=16).digest()


def _notification(event: Event, when: str, *, controller: str, instance: str) -> Json:
    """Return Flux's ``event/v1beta1`` JSON."""
    severity: Literal["info", "error"] = "error" if event.severity == "error" else "info"
    return {
        "involvedObject": _involved(event),
        "severity": severity,
        "timestamp": when,
        "message": event.message,
        "reason": event.reason,
        "metadata": _metadata(event),
        "reportingController": controller,
        "reportingInstance": instance,
    }


def _metadata(event: Event) -> dict[str, str]:
    """Return the metadata of the event with full keys, merged with annotations of the object."""
    group = event.ref.gvk.group
    own = {k if "/" in k else f"{group}/{k}": v for k, v in event.metadata.items() if v}
    added = {k: v for k, v in event.meta.annotations.items() if k.startswith(_METADATA_PREFIX)}
    return {**added, **own}


def _involved(event: Event) -> Json:
    gvk = event.ref.gvk
    return {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "namespace": event.ref.namespace,
        "name": event.ref.name,
        "uid": event.meta.uid,
        "resourceVersion": event.meta.resource_version,
    }


def _cut(message: str) -> str:
    """Shorten a message to the limit of the API (``core/v1`` validation: 1024 bytes)."""
    raw = message.encode()
    if len(raw) <= _MESSAGE_LIMIT:
        return message
    return raw[: _MESSAGE_LIMIT - 3].decode(errors="ignore") + "..."
