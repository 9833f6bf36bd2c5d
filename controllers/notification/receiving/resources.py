"""Which objects a hook concerns: names, ``*`` with labels, and CEL over object and request."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from controllers.notification import followed
from controllers.notification.receiving.request import RefusedError
from crds import RECEIVER
from crds.notification_receiver import Receiver, ReceiverResource
from toolkit.apply import expressions
from toolkit.errors import StalledError
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, ref_of
from toolkit.policy.references import References

_RECEIVER: Final = GroupVersionKind(*RECEIVER.gvk)
_EVERY: Final = "*"
_CPU_SECONDS: Final = 2.0
"""For all expressions of one hook together."""
_MOST_LISTS: Final = 64
"""Lists for one hook: a kind in a namespace each."""
MOST: Final = 5000
"""Objects of one hook."""


class Resources:
    """Finds the objects."""

    def __init__(self, client: Client, policy: References) -> None:
        self._client = client
        self._policy = policy

    async def of(
        self, receiver: Receiver, request: Json | None, require_current: Callable[[], None]
    ) -> tuple[list[ObjectRef], list[str]]:
        """Return the objects to reconcile, and the problems with other resources of the Receiver.

        Objects of a kind in a namespace are read once. ``require_current`` raises once the Receiver
        was changed or deleted, and is called before each request.

        Raises:
            RefusedError: an expression is invalid, or takes too long.
        """
        found: dict[ObjectRef, None] = {}
        problems: list[str] = []
        reading = _Reading(self._client, receiver, require_current)
        for number, each in enumerate(receiver.spec.resources):
            try:
                refs = await self._selected(receiver, each, request, reading)
            except (ApiError, StalledError) as exc:
                problems.append(f"spec.resources[{number}]: {exc}")
                continue
            found |= dict.fromkeys(refs)
        return list(found)[:MOST], problems

    async def _selected(
        self,
        receiver: Receiver,
        each: ReceiverResource,
        request: Json | None,
        reading: "_Reading",
    ) -> Sequence[ObjectRef]:
        meta = receiver.metadata
        gvk, namespace = followed.KINDS[each.kind], each.namespace or meta.namespace
        holder = ObjectRef(_RECEIVER, meta.namespace, meta.name)
        self._policy.require(holder, ObjectRef(gvk, namespace, each.name))
        texts = [text for text in (receiver.spec.resource_filter, each.filter) if text]
        if each.name != _EVERY and not texts:
            return [ObjectRef(gvk, namespace, each.name)]
        objects = await reading.objects(gvk, namespace, each)
        filters = [_compiled(text) for text in texts]
        return [ref_of(obj) async for obj in _chosen(objects, filters, request)]


class _Reading:
    """Reads the objects of one hook; several entries for one kind and namespace share a list."""

    def __init__(
        self, client: Client, receiver: Receiver, require_current: Callable[[], None]
    ) -> None:
        self._client = client
        self._require_current = require_current
        self._known: dict[tuple[GroupVersionKind, str], Sequence[Json]] = {}
        own = receiver.metadata.namespace
        self._entries = Counter(
            (followed.KINDS[each.kind], each.namespace or own) for each in receiver.spec.resources
        )

    async def objects(
        self, gvk: GroupVersionKind, namespace: str, each: ReceiverResource
    ) -> Sequence[Json]:
        """Return the objects that an entry selects.

        Raises:
            RefusedError: the Receiver was changed, or has entries for too many namespaces.
        """
        if self._entries[gvk, namespace] == 1:
            return await self._alone(gvk, namespace, each)
        if (gvk, namespace) not in self._known:
            if len(self._known) >= _MOST_LISTS:
                raise RefusedError(
                    f"spec.resources needs more than {_MOST_LISTS} lists of objects: select fewer"
                    " kinds and namespaces",
                    status=503,
                )
            self._require_current()
            self._known[gvk, namespace] = await self._client.list(gvk, namespace)
        return [obj for obj in self._known[gvk, namespace] if _selects(each, obj)]

    async def _alone(
        self, gvk: GroupVersionKind, namespace: str, each: ReceiverResource
    ) -> Sequence[Json]:
        self._require_current()
        if each.name == _EVERY:
            labels = ",".join(f"{key}={value}" for key, value in sorted(each.match_labels.items()))
            return await self._client.list(gvk, namespace, label_selector=labels)
        try:
            return [await self._client.get(gvk, each.name, namespace)]
        except NotFoundError:
            return []


def _selects(each: ReceiverResource, obj: Json) -> bool:
    metadata = obj.get("metadata") or {}
    if each.name != _EVERY:
        return bool(metadata.get("name") == each.name)
    labels = metadata.get("labels") or {}
    return each.match_labels.items() <= labels.items()


def _compiled(text: str) -> expressions.Expression:
    try:
        return expressions.Expression(text)
    except StalledError as exc:
        raise RefusedError("an expression of the Receiver cannot be used", status=503) from exc


async def _chosen(
    objects: Sequence[Json], filters: Sequence[expressions.Expression], request: Json | None
) -> AsyncIterator[Json]:
    """Yield the objects that match all filters, and yield to the event loop after each.

    Raises:
        RefusedError: the filters take too long.
    """
    spent = 0.0
    for obj in objects:
        began = time.thread_time()
        if _holds(filters, {"res": obj, "req": request}):
            yield obj
        spent += time.thread_time() - began
        if spent > _CPU_SECONDS:
            raise RefusedError(
                f"the expressions of the Receiver take more than {_CPU_SECONDS:g} s of CPU on"
                f" {len(objects)} objects: select fewer, or send less",
                status=503,
            )
        await asyncio.sleep(0)


def _holds(filters: Sequence[expressions.Expression], values: Mapping[str, Any]) -> bool:
    return all(each.holds(values) for each in filters)
