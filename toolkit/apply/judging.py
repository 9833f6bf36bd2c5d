"""Judge the health of objects by CEL rules, in batches, away from the event loop.

Objects come as the watches show them. While a worker judges the objects of an owner, others of the
same owner gather, and are judged together. Of an object only the newest version is kept. The
objects of each owner are judged by themselves: rules that fail, fail for their owner only.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from toolkit.apply import health
from toolkit.apply.health import Health, Rule
from toolkit.apply.order import Identity
from toolkit.errors import PenstockError, StalledError
from toolkit.expressions.evaluator import Case, Evaluates
from toolkit.objects import Json, ObjectKey, ObjectRef

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_HELD: Final = 16 << 20
"""Bytes of objects of one owner that wait to be judged."""
_AT_ONCE: Final = 500


class OnJudged(Protocol[T_contra]):
    """Told the health of an object, as it was when it was ``seen``. Must not block."""

    def __call__(
        self, owner: ObjectKey, ref: ObjectRef, seen: T_contra, rule: Rule, found: Health
    ) -> None:
        """Keep the health."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting(Generic[T]):
    ref: ObjectRef
    seen: T
    rule: Rule
    case: Case
    size: int


class Judging(Generic[T]):
    """The objects that wait to be judged, by owner; ``run`` has them judged."""

    def __init__(self, evaluates: Evaluates, told: OnJudged[T]) -> None:
        self._evaluates = evaluates
        self._told = told
        self._waiting: dict[ObjectKey, dict[Identity, _Waiting[T]]] = {}
        self._sizes: dict[ObjectKey, int] = {}
        self._judged: dict[ObjectKey, frozenset[Identity]] = {}
        self._tasks: dict[ObjectKey, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Judge until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for owner in tuple(self._waiting):
                    self._begin(owner)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def judge(self, owner: ObjectKey, ref: ObjectRef, seen: T, rule: Rule, obj: Json) -> None:
        """Have an object judged by a rule of its owner.

        Without room for it nothing is done: who asks for its health has it read again.
        """
        whole = health.case(rule, obj)
        given: dict[str, Any] = {
            name: msgspec.Raw(msgspec.json.encode(value)) for name, value in whole.given.items()
        }
        size = sum(len(bytes(value)) for value in given.values())
        mine = self._waiting.setdefault(owner, {})
        before = mine.get(ref.identity)
        held = self._sizes.get(owner, 0) - (before.size if before else 0)
        if mine and held + size > _HELD:
            return
        case = Case(given=given, steps=whole.steps)
        mine[ref.identity] = _Waiting(ref=ref, seen=seen, rule=rule, case=case, size=size)
        self._sizes[owner] = held + size
        self._begin(owner)

    def awaits(self, owner: ObjectKey, identity: Identity) -> bool:
        """Tell whether an object of the owner is being judged, or will be."""
        waiting = self._waiting.get(owner, {})
        return identity in waiting or identity in self._judged.get(owner, ())

    @property
    def busy(self) -> bool:
        """Tell whether objects wait to be judged."""
        return bool(self._tasks)

    def forget(self, owner: ObjectKey) -> None:
        """Judge no more objects of an owner."""
        self._waiting.pop(owner, None)
        self._sizes.pop(owner, None)
        if task := self._tasks.get(owner):
            task.cancel()

    def _begin(self, owner: ObjectKey) -> None:
        if self._group is not None and owner not in self._tasks:
            task = self._group.create_task(self._work(owner))
            self._tasks[owner] = task
            task.add_done_callback(lambda _: self._end(owner))

    def _end(self, owner: ObjectKey) -> None:
        self._tasks.pop(owner, None)
        self._judged.pop(owner, None)
        if self._waiting.get(owner):
            self._begin(owner)

    async def _work(self, owner: ObjectKey) -> None:
        while batch := self._take(owner):
            self._judged[owner] = frozenset(each.ref.identity for each in batch)
            try:
                found = await self._batch(owner, batch)
            except PenstockError as exc:
                # Who still wants to know asks again, and has the objects read.
                logger.warning("health not judged", extra={"owner": str(owner), "error": str(exc)})
                continue
            finally:
                self._judged.pop(owner, None)
            for each, one in zip(batch, found, strict=True):
                self._told(owner, each.ref, each.seen, each.rule, one)

    def _take(self, owner: ObjectKey) -> list[_Waiting[T]]:
        waiting = self._waiting.get(owner, {})
        batch = [waiting.pop(identity) for identity in list(waiting)[:_AT_ONCE]]
        self._sizes[owner] = self._sizes.get(owner, 0) - sum(each.size for each in batch)
        if not waiting:
            self._waiting.pop(owner, None)
            self._sizes.pop(owner, None)
        return batch

    async def _batch(self, owner: ObjectKey, batch: list[_Waiting[T]]) -> list[Health]:
        cases = [each.case for each in batch]
        try:
            outcomes = await self._evaluates.evaluate(owner.namespace, cases)
        except StalledError as exc:
            return [health.failure(exc)] * len(batch)
        return [health.judged(one.rule, found) for one, found in zip(batch, outcomes, strict=True)]
