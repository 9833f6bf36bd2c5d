"""The only writer of an object's status and finalizer, with a cache of its own writes.

A write arrives through the watch with a delay. Until then ``current`` returns the object from the
answer to the write, so that no reconciliation decides on an outdated state.
"""

import asyncio
from typing import Final, Generic, TypeVar

import msgspec

from toolkit.errors import TransientError
from toolkit.kube import errors, patch
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.kube.reconciliation import Reconcilable
from toolkit.objects import GroupVersionKind, Json, ObjectKey

T = TypeVar("T", bound=Reconcilable)

_ATTEMPTS: Final = 5
_FIRST_DELAY: Final = 0.25
_LAST_DELAY: Final = 8.0


class VanishedError(TransientError):
    """The object was deleted while a pass was at work on it."""

    def __init__(self) -> None:
        super().__init__("the object is gone")


class Writer(Generic[T]):
    """Writes the objects of one kind under one field manager."""

    def __init__(
        self,
        client: Client,
        informer: Informer[T],
        model: type[T],
        *,
        field_manager: str,
        finalizer: str,
    ) -> None:
        self._client = client
        self._informer = informer
        self._model = model
        self._manager = field_manager
        self._finalizer = finalizer
        self._ahead: dict[ObjectKey, T] = {}
        self._may_replace = True

    def current(self, key: ObjectKey) -> T | None:
        """Return the newest known object: from the informer, or from our own last write."""
        return self._ahead.get(key) or self._informer.get(key)

    def saw(self, change: Change[T]) -> None:
        """Forget a write that the cache has caught up with."""
        ahead = self._ahead.get(change.key)
        if ahead and (change.new is None or _version(change.new) >= _version(ahead)):
            del self._ahead[change.key]

    async def status(self, obj: T, body: Json) -> T:
        """Merge ``body`` into the status and return the current object.

        It retries through an outage of half a minute, because the work is already done.

        Raises:
            VanishedError: the object was deleted, or another object has its name.
            ApiError: the server refuses the write, or is unavailable for longer.
        """
        write = self._replace if self._may_replace else self._merge
        delay = _FIRST_DELAY
        conflicts = 0
        while True:
            try:
                return await write(obj, body)
            except errors.ConflictError:
                # The body names only what we own, so it fits the newer version as well.
                conflicts += 1
                if conflicts == _ATTEMPTS:
                    raise
                obj = await self._fetch(obj)
            except errors.ApiError as exc:
                if _passes_by_itself(exc):
                    if delay > _LAST_DELAY:
                        raise
                    await asyncio.sleep(delay)
                    delay *= 2
                elif write == self._merge:
                    raise
            write = self._merge

    async def _merge(self, obj: T, body: Json) -> T:
        return await self._patch(obj, {"status": body}, subresource="status")

    async def _replace(self, obj: T, body: Json) -> T:
        """Replace the whole status instead of sending a patch.

        For a merge patch, the API server encodes the stored object and decodes the result, which is
        a tenth of the cost of the write. We own the whole status, and know this version of it. The
        rest of the object stays unchanged (apiextensions ``status_strategy.go``); it is sent
        because other admission webhooks may read it.
        """
        whole: Json = msgspec.to_builtins(obj)
        named = {"apiVersion": self._gvk.api_version, "kind": self._gvk.kind}
        whole |= {**named, "status": patch.applied(whole.get("status") or {}, body)}
        try:
            reply = await self._client.replace(whole, manager=self._manager, subresource="status")
        except errors.NotFoundError as exc:
            raise VanishedError from exc
        except errors.ForbiddenError:
            # A role from before status was put allows to patch it.
            self._may_replace = False
            raise
        return self._took(reply)

    async def finalizer(self, obj: T, *, present: bool) -> T:
        """Add or remove our finalizer; other finalizers stay.

        Raises:
            VanishedError: the object was deleted.
            ConflictError: other clients kept writing the object.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            if (self._finalizer in obj.metadata.finalizers) == present:
                return obj
            kept = [name for name in obj.metadata.finalizers if name != self._finalizer]
            wanted = [*kept, self._finalizer] if present else kept
            try:
                return await self._patch(obj, {"metadata": {"finalizers": wanted}})
            except errors.ConflictError:
                if attempt == _ATTEMPTS:
                    raise
            obj = await self._fetch(obj)
        return obj

    async def _patch(self, obj: T, body: Json, *, subresource: str = "") -> T:
        """Patch exactly this version: a patch by name alone would also hit a namesake."""
        meta = obj.metadata
        version = {"resourceVersion": meta.resource_version}
        try:
            reply = await self._client.patch(
                self._gvk,
                meta.name,
                meta.namespace,
                {**body, "metadata": {**version, **body.get("metadata", {})}},
                strategy="merge",
                subresource=subresource,
                manager=self._manager,
            )
        except errors.NotFoundError as exc:
            raise VanishedError from exc
        return self._took(reply)

    def _took(self, reply: Json) -> T:
        """Return the object that a write has answered with, and remember it."""
        new = msgspec.convert(reply, self._model)
        self._remember(new)
        return new

    async def _fetch(self, obj: T) -> T:
        meta = obj.metadata
        try:
            reply = await self._client.get(self._gvk, meta.name, meta.namespace)
        except errors.NotFoundError as exc:
            raise VanishedError from exc
        new = msgspec.convert(reply, self._model)
        if new.metadata.uid != meta.uid:
            raise VanishedError
        return new

    def _remember(self, obj: T) -> None:
        key = ObjectKey(obj.metadata.namespace, obj.metadata.name)
        cached = self._informer.get(key)
        if cached is None:
            return
        # The write that removes the last finalizer answers with the version before it.
        released = _version(cached) == _version(obj) and self._released(cached, obj)
        if released or _version(cached) < _version(obj):
            self._ahead[key] = obj

    def _released(self, before: T, obj: T) -> bool:
        name = self._finalizer
        return name in before.metadata.finalizers and name not in obj.metadata.finalizers

    @property
    def _gvk(self) -> GroupVersionKind:
        return self._informer.gvk


def _passes_by_itself(exc: errors.ApiError) -> bool:
    """Tell an outage from a refusal."""
    return isinstance(exc, errors.UnreachableError) or exc.status == 429 or exc.status >= 500


def _version(obj: Reconcilable) -> int:
    """Return the resourceVersion as a number (comparable by KEP-5504); 0 if it is not a number."""
    text = obj.metadata.resource_version
    return int(text) if text.isdecimal() else 0
