"""Hand over undelivered events of a Pod that stops to another Pod, through the API server.

The spool of a Pod is deleted with it. When a Pod stops, it writes undelivered events into
ConfigMaps of its own namespace, and the leader adds them to its own spool. Deliveries keep their
keys. A delivery is dropped if its object has had a newer event since, so that no old state is sent
after a new one.

The size is limited to ``MOST_BYTES`` in all, with an equal share for each Provider, the newest
events first. Other events are dropped and counted. A process that is killed hands nothing over: its
events survive only on a persistent volume.
"""

import asyncio
import base64
import contextlib
import logging
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from controllers.notification.events.spool import Delivery, Spool
from toolkit import telemetry, untrusted
from toolkit.errors import PenstockError
from toolkit.kube import rbac
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change
from toolkit.kube.secrets import CONFIG_MAP
from toolkit.objects import Json, ObjectKey, dig

logger = logging.getLogger(__name__)

LABEL: Final = "notification.penstock.dev/undelivered"
"""Its value is the Lease of the Pods that may adopt them: each shard has its own."""
MOST_BYTES: Final = 16 << 20
"""For all notices of a handover."""
_KEY: Final = "deliveries"
_PART: Final = 640 << 10
"""Bytes of notices in one ConfigMap, which holds 1 MiB."""
_LARGEST: Final = 1_000_000
_OPENED: Final = 8 << 20


class _Left(msgspec.Struct, frozen=True, array_like=True):
    """A delivery, as it is handed over."""

    namespace: str
    provider: str
    object: str
    since: float
    key: str
    notice: msgspec.Raw


class Handover:
    """Hands over deliveries, and adopts those of other Pods.

    ``wake`` is called with the Provider of adopted deliveries.
    """

    def __init__(
        self,
        client: Client,
        spool: Spool,
        *,
        wake: Callable[[ObjectKey], None],
        lease: ObjectKey,
        pause: float = 5.0,
    ) -> None:
        """Prepare; ``pause`` is that between two attempts to take something over."""
        self._client = client
        self._spool = spool
        self._wake = wake
        self._namespace, self._lease = lease.namespace, lease.name
        self._pause = pause
        self._seen: asyncio.Queue[ObjectKey] = asyncio.Queue()
        self._left: list[str] = []
        self._name = f"undelivered-events-{uuid.uuid4().hex[:12]}"
        self._taken: set[str] = set()

    def saw(self, change: Change[object]) -> None:
        """Note a ConfigMap of another Pod."""
        if change.old is None and change.new is not None and change.key.name not in self._left:
            self._seen.put_nowait(change.key)

    async def leave(self) -> None:
        """Hand over all deliveries; after an error they stay in the spool."""
        providers = self._spool.providers()
        handed, dropped = 0, 0
        for provider in providers:
            waiting = self._spool.waiting(provider)
            kept = await self._spool.newest(provider, MOST_BYTES // len(providers))
            try:
                for part in _parts(kept):
                    handed += await self._put(part)
            except PenstockError as exc:
                logger.warning(
                    "events are not handed over",
                    extra={"provider": str(provider), "count": waiting, "error": str(exc)},
                )
                continue
            dropped += waiting - len(kept)
            await self._spool.clear(provider)
        telemetry.EVENTS_DROPPED.labels("provider").inc(dropped)
        if handed or dropped:
            logger.info("events handed over", extra={"count": handed, "dropped": dropped})

    async def adopt(self) -> None:
        """Adopt the deliveries of other Pods, until cancelled."""
        while True:
            key = await self._seen.get()
            # One after the other, in the order of their names: that is the order of the events.
            while not await self._took(key):
                continue

    async def _took(self, key: ObjectKey) -> bool:
        try:
            await self._take(key)
        except PenstockError as exc:
            logger.warning(
                "events are not taken over", extra={"configMap": str(key), "error": str(exc)}
            )
            await asyncio.sleep(self._pause)
            return False
        return True

    async def _put(self, part: Sequence[Delivery]) -> int:
        """Create a ConfigMap; return the number of its deliveries."""
        packed = await asyncio.to_thread(_packed, part)
        if len(packed) > _LARGEST:
            telemetry.EVENTS_DROPPED.labels("provider").inc(len(part))
            return 0
        name = f"{self._name}-{len(self._left):04}"
        self._left.append(name)
        await self._client.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name,
                    "namespace": self._namespace,
                    "labels": {
                        "app.kubernetes.io/part-of": "penstock",
                        "app.kubernetes.io/instance": rbac.NAMESPACE,
                        LABEL: self._lease,
                    },
                },
                "binaryData": {_KEY: base64.b64encode(packed).decode()},
            }
        )
        return len(part)

    async def _take(self, key: ObjectKey) -> None:
        try:
            found = await self._client.get(CONFIG_MAP, key.name, key.namespace)
        except NotFoundError:
            return
        if dig(found, "metadata", "labels", LABEL) != self._lease:
            return
        if key.name not in self._taken:
            await self._add(key, found)
            self._taken.add(key.name)
        with contextlib.suppress(NotFoundError):
            await self._client.delete(CONFIG_MAP, key.name, key.namespace)
        self._taken.discard(key.name)

    async def _add(self, key: ObjectKey, found: Json) -> None:
        try:
            left = await asyncio.to_thread(_unpacked, found)
        except (untrusted.UntrustedError, ValueError, KeyError, zlib.error) as exc:
            # another Pod could not read it either
            logger.warning("events are lost", extra={"configMap": str(key), "error": str(exc)})
            return
        fresh = [each for each in left if not self._spool.overtaken(each)]
        if fresh:
            await self._spool.add(fresh)
        for each in fresh:
            self._wake(each.provider)
        logger.info("events taken over", extra={"count": len(fresh), "of": len(left)})


def _parts(deliveries: Iterable[Delivery]) -> Iterator[list[Delivery]]:
    part: list[Delivery] = []
    size = 0
    for each in deliveries:
        if part and size + len(each.notice) > _PART:
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.notice)
    if part:
        yield part


def _packed(part: Iterable[Delivery]) -> bytes:
    left = [
        _Left(
            namespace=each.provider.namespace,
            provider=each.provider.name,
            object=each.object,
            since=each.since,
            key=each.key,
            notice=msgspec.Raw(each.notice),
        )
        for each in part
    ]
    return zlib.compress(msgspec.json.encode(left))


def _unpacked(found: Json) -> list[Delivery]:
    raw = base64.b64decode(found["binaryData"][_KEY], validate=True)
    opening = zlib.decompressobj()
    text = opening.decompress(raw, _OPENED)
    if opening.unconsumed_tail:
        raise ValueError(f"more than {_OPENED} bytes")
    return [
        Delivery(
            provider=ObjectKey(each.namespace, each.provider),
            object=each.object,
            since=each.since,
            key=each.key,
            notice=bytes(each.notice),
        )
        for each in untrusted.load_json(text, list[_Left], size=_OPENED)
    ]
