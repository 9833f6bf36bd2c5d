"""Judge the health of objects by CEL rules, in batches, away from the event loop.

Objects come as the watches show them. While a worker judges the objects of an owner, others of the
same owner gather, and are judged together. Of an object only the newest version is kept. The
objects of each owner are judged by themselves: rules that fail, fail for their owner only. Objects
that are too expensive together are judged apart, so the health of each depends on itself alone.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from toolkit.apply import health
from toolkit.apply.health import Health, Rule
from toolkit.apply.order import Identity
from toolkit.errors import PenstockError, StalledError
from toolkit.expressions.evaluator import Case, Evaluates
from toolkit.expressions.expression import BudgetError
from toolkit.objects import Json, ObjectKey, ObjectRef
from toolkit.turns import TIMES

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_HELD: Final = 16 << 20
"""Bytes of objects of one namespace's owners that wait to be judged, or are being judged."""
_HELD_TOGETHER: Final = 64 << 20
"""The same of all namespaces; one that has none may always have one, of whatever size."""
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
        self._sizes: Counter[str] = Counter()
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
        mine = self._waiting.get(owner, {})
        before = mine.get(ref.identity)
        more = size - (before.size if before else 0)
        if not self._room(owner.namespace, more):
            return
        case = Case(given=given, steps=whole.steps)
        each = _Waiting(ref=ref, seen=seen, rule=rule, case=case, size=size)
        self._waiting.setdefault(owner, mine)[ref.identity] = each
        self._held(owner.namespace, more)
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
        for each in self._waiting.pop(owner, {}).values():
            self._held(owner.namespace, -each.size)
        if task := self._tasks.get(owner):
            task.cancel()

    def _room(self, namespace: str, more: int) -> bool:
        """Tell whether a namespace may hold more; it never holds all that the others need."""
        held = self._sizes[namespace] + more
        left = _HELD_TOGETHER - self._sizes.total() - more
        return held == more or more <= 0 or (held <= _HELD and held <= TIMES * left)

    def _held(self, namespace: str, more: int) -> None:
        self._sizes[namespace] += more
        if not self._sizes[namespace]:
            del self._sizes[namespace]

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
                todo: list[Sequence[_Waiting[T]]] = [batch]
                while todo:
                    todo += await self._together(owner, todo.pop())
            except PenstockError as exc:
                # Who still wants to know asks again, and has the objects read.
                logger.warning("health not judged", extra={"owner": str(owner), "error": str(exc)})
            finally:
                self._judged.pop(owner, None)
                self._held(owner.namespace, -sum(each.size for each in batch))

    def _take(self, owner: ObjectKey) -> list[_Waiting[T]]:
        """Take objects to judge at once; their bytes count until they are judged."""
        waiting = self._waiting.get(owner, {})
        batch = [waiting.pop(identity) for identity in list(waiting)[:_AT_ONCE]]
        if not waiting:
            self._waiting.pop(owner, None)
        return batch

    async def _together(
        self, owner: ObjectKey, batch: Sequence[_Waiting[T]]
    ) -> list[Sequence[_Waiting[T]]]:
        """Judge objects within one budget; return those for which it was not enough, in parts."""
        cases = [each.case for each in batch]
        try:
            outcomes = await self._evaluates.evaluate(owner.namespace, cases)
        except StalledError as exc:
            if isinstance(exc, BudgetError) and len(batch) > 1:
                middle = len(batch) // 2
                return [batch[middle:], batch[:middle]]
            self._tell(owner, batch, [health.failure(exc)] * len(batch))
            return []
        # The first one had the whole budget.
        enough = 1
        while enough < len(batch) and all(each.kind != "spent" for each in outcomes[enough]):
            enough += 1
        done = zip(batch[:enough], outcomes, strict=False)
        self._tell(owner, batch[:enough], [health.judged(one.rule, found) for one, found in done])
        return [batch[enough:]] if enough < len(batch) else []

    def _tell(
        self, owner: ObjectKey, batch: Sequence[_Waiting[T]], found: Sequence[Health]
    ) -> None:
        for each, one in zip(batch, found, strict=True):
            self._told(owner, each.ref, each.seen, each.rule, one)
