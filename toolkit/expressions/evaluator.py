"""Evaluate expressions in worker processes of their own.

cel-go limits what evaluations cost together. A worker ends itself when one step of an expression
takes too much processor time or memory; only the request that it works on fails. Namespaces take
turns, so one namespace never has all workers. Those whose requests have ended workers lately take
turns as one, so also many namespaces of one party never have all.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from toolkit.expressions.expression import (
    BUDGET,
    LONGEST,
    BudgetError,
    Expression,
    InvalidError,
    Outcome,
)
from toolkit.native import calls
from toolkit.native.calls import EngineError
from toolkit.native.pool import (
    WorkerDiedError,
    WorkerMemoryError,
    WorkerPool,
    WorkerStuckError,
    WorkerTimeoutError,
)
from toolkit.turns import Turns

_WORKERS: Final = 2
"""Also on one processor: a namespace has one at most, and another one the other."""
_MEMORY_LIMIT: Final = 192 << 20
"""Bytes for a worker: four times what the costliest request within the budget takes."""
_PROCESSOR_SECONDS: Final = 1.0
"""Of one request: more than twice what a request within the budget takes (0.44 s at most)."""
_COSTLY: Final = "(costly)"
"""The flow of all namespaces that have ended a worker lately; no namespace is called so."""
_COSTLY_SECONDS: Final = 300.0
_COSTLY_KEPT: Final = 4096
_SECONDS: Final = 30.0
"""Of one request, with the start of a worker, on a node whose processors are busy."""
_REQUEST: Final = 4 << 20
"""Bytes of variables that are sent to a worker at once."""
_KEPT: Final = 1024
_ENDLESS: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Evaluates an expression; the steps after it see the value as ``into``.``bind``."""

    expression: Expression
    bind: str = ""
    into: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Steps over the same variables: ``given`` are values by name, or JSON (``msgspec.Raw``)."""

    given: Mapping[str, Any]
    steps: Sequence[Step]


class Evaluates(Protocol):
    """Evaluates expressions: an ``Evaluator``."""

    async def evaluate(
        self,
        namespace: str,
        cases: Sequence[Case],
        *,
        shared: Mapping[str, Any] | None = None,
        doubles: bool = False,
    ) -> list[list[Outcome]]:
        """Return the outcome of each step of each case, within one budget; see ``Evaluator``."""

    async def problems(self, namespace: str, asked: Sequence[Expression]) -> tuple[str, ...]:
        """Return why each expression is invalid, empty if it is valid; see ``Evaluator``."""


class Evaluator:
    """Evaluates in workers that start with the first expression, and end when they are idle.

    With a ``share`` below 1 the workers rest for the remaining part of the time.
    """

    def __init__(
        self,
        pool: WorkerPool,
        *,
        workers: int = 1,
        share: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pool = pool
        self._monotonic = monotonic
        self._sleep = sleep
        self._turns = Turns(places=workers, waiting=_ENDLESS)
        self._rest = 1.0 / share - 1.0
        self._rested = 0.0
        self._known: OrderedDict[Expression, str] = OrderedDict()
        self._costly: OrderedDict[str, float] = OrderedDict()

    async def close(self) -> None:
        """End the workers."""
        await self._pool.close()

    async def problems(self, namespace: str, asked: Sequence[Expression]) -> tuple[str, ...]:
        """Return why each expression is invalid; empty if it is valid. Answers are cached.

        Raises:
            BudgetError: to compile them takes too long, or too much memory.
            TransientError: no worker could do it.
        """
        found = {each: _length(each) or self._recall(each) for each in asked}
        unknown = [each for each, problem in found.items() if problem is None]
        if unknown:
            request = {"expressions": [_encoded(each) for each in unknown]}
            answer = await self._call(namespace, "cel.check", request)
            for each, problem in zip(unknown, answer["problems"], strict=True):
                found[each] = self._known[each] = problem
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return tuple(found[each] or "" for each in asked)

    async def evaluate(
        self,
        namespace: str,
        cases: Sequence[Case],
        *,
        shared: Mapping[str, Any] | None = None,
        doubles: bool = False,
    ) -> list[list[Outcome]]:
        """Return the outcome of each step of each case, within one budget.

        ``shared`` are variables of all cases. With ``doubles`` all numbers are doubles.

        Raises:
            InvalidError: an expression is invalid.
            BudgetError: it takes too much processor time or memory at once.
            TransientError: no worker could do it.
        """
        outcomes: list[list[Outcome]] = []
        left = BUDGET
        given = _raw(shared or {})
        for some in _portions(cases):
            numbers: dict[Expression, int] = {}
            request = {
                "cases": [_numbered(case, numbers) for case in some],
                "expressions": [_encoded(each) for each in numbers],
                "shared": given,
                "doubles": doubles,
                "budget": left,
            }
            answer = await self._evaluated(namespace, request, list(numbers))
            outcomes += msgspec.convert(answer["cases"], list[list[Outcome]])
            left -= min(left, answer["cost"])
        return outcomes

    async def _evaluated(
        self, namespace: str, request: Mapping[str, Any], asked: Sequence[Expression]
    ) -> Any:
        for each in asked:
            if problem := _length(each):
                raise InvalidError(problem)
        try:
            return await self._call(namespace, "cel.evaluate", request)
        except EngineError as exc:
            if exc.code != "InvalidExpression":
                raise
            text = asked[exc.detail["index"]].shown
            raise InvalidError(f"expression {text} is invalid: {exc}") from exc

    async def _call(self, namespace: str, op: str, request: Mapping[str, Any]) -> Any:
        limited = {**request, "processorMs": int(_PROCESSOR_SECONDS * 1000)}
        async with self._turn(namespace) as flow:
            await self._sleep(self._rested - self._monotonic())
            began, used = self._monotonic(), None
            try:
                answer = await self._ask(flow, op, limited)
                used = answer["seconds"]
            except (BudgetError, WorkerDiedError, WorkerTimeoutError):
                self._remember(namespace)
                raise
            finally:  # also when the request is given up, or ends its worker
                ended = self._monotonic()
                self._rested = ended + (ended - began if used is None else used) * self._rest
        return answer

    @asynccontextmanager
    async def _turn(self, namespace: str) -> AsyncIterator[str]:
        """Hold the place of a worker for the flow of a namespace, which may change in waiting."""
        while True:
            flow = self._flow(namespace)
            async with self._turns.turn(flow):
                if flow == self._flow(namespace):
                    yield flow
                    return

    def _flow(self, namespace: str) -> str:
        until = self._costly.get(namespace)
        return _COSTLY if until is not None and self._monotonic() < until else namespace

    def _remember(self, namespace: str) -> None:
        self._costly[namespace] = self._monotonic() + _COSTLY_SECONDS
        self._costly.move_to_end(namespace)
        while len(self._costly) > _COSTLY_KEPT:
            self._costly.popitem(last=False)

    async def _ask(self, flow: str, op: str, request: Mapping[str, Any]) -> Any:
        """Run an operation; whether it has enough memory does not depend on earlier requests."""
        try:
            try:
                return await calls.call(self._pool, op, request, flow=flow, timeout=_SECONDS)
            except WorkerMemoryError as exc:
                if exc.fresh:
                    raise
                return await calls.call(
                    self._pool, op, request, flow=flow, timeout=_SECONDS, fresh=True
                )
        except WorkerMemoryError as exc:
            raise BudgetError(
                f"the expressions need more than {exc.limit >> 20} MiB of memory: use simpler"
                " expressions, or shorter lists and texts"
            ) from exc
        except WorkerStuckError as exc:
            raise BudgetError(
                f"{exc}: use simpler expressions, or shorter lists and texts"
            ) from exc

    def _recall(self, expression: Expression) -> str | None:
        if expression in self._known:
            self._known.move_to_end(expression)
        return self._known.get(expression)


def start(*, share: float = 1.0) -> Evaluator:
    """Return an evaluator with workers of its own.

    Raises:
        StalledError: the engine is not built.
    """
    pool = calls.start(size=1, memory_limit=_MEMORY_LIMIT)
    return Evaluator(pool, workers=_WORKERS if share == 1.0 else 1, share=share)


async def require_valid(
    evaluates: Evaluates, namespace: str, asked: Mapping[str, Expression]
) -> None:
    """Require that expressions, by what they are called in messages, can be evaluated.

    Raises:
        InvalidError: one cannot; the message begins with its name.
        BudgetError, TransientError: see ``Evaluator.problems``.
    """
    if not asked:
        return
    problems = await evaluates.problems(namespace, list(asked.values()))
    for name, problem in zip(asked, problems, strict=True):
        if problem:
            raise InvalidError(f"{name}: {problem}")


def _length(expression: Expression) -> str | None:
    if len(expression.text) > LONGEST:
        return f"expression is longer than {LONGEST} characters"
    return None


def _encoded(expression: Expression) -> dict[str, Any]:
    return {
        "text": expression.text,
        "variables": expression.variables,
        "result": expression.result,
    }


def _raw(values: Mapping[str, Any]) -> dict[str, Any]:
    """Encode values once: they are measured, and those that are shared are sent repeatedly."""
    return {
        name: value if isinstance(value, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(value))
        for name, value in values.items()
    }


@dataclass(frozen=True, slots=True)
class _Encoded:
    given: Mapping[str, Any]
    steps: Sequence[Step]
    size: int


def _portions(cases: Iterable[Case]) -> Iterator[list[_Encoded]]:
    """Yield cases in portions that a worker gets at once, encoded."""
    portion: list[_Encoded] = []
    size = 0
    for case in cases:
        given = _raw(case.given)
        each = _Encoded(given, case.steps, sum(len(bytes(value)) for value in given.values()))
        if portion and size + each.size > _REQUEST:
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += each.size
    if portion:
        yield portion


def _numbered(case: _Encoded, numbers: dict[Expression, int]) -> dict[str, Any]:
    steps = []
    for step in case.steps:
        number = numbers.setdefault(step.expression, len(numbers))
        steps.append({"expression": number, "bind": step.bind, "into": step.into})
    return {"with": case.given, "steps": steps}
