"""An evaluator that no test may use, and a block after which a real one is closed."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from toolkit.expressions.evaluator import Case, Evaluator
from toolkit.expressions.expression import Expression, Outcome


class NoEvaluator:
    """Stands where a test has no expressions: a call is a fault of what is tested."""

    async def evaluate(
        self,
        namespace: str,
        cases: Sequence[Case],
        *,
        shared: Mapping[str, Any] | None = None,
        doubles: bool = False,
    ) -> list[list[Outcome]]:
        """Refuse."""
        raise AssertionError(f"{namespace} has {len(cases)} cases, {shared}, {doubles}")

    async def problems(self, namespace: str, asked: Sequence[Expression]) -> tuple[str, ...]:
        """Refuse, if anything is asked."""
        raise AssertionError(f"{namespace} asked for {asked}")


@asynccontextmanager
async def closing(evaluates: Evaluator) -> AsyncIterator[Evaluator]:
    """Close the evaluator after the block."""
    try:
        yield evaluates
    finally:
        await evaluates.close()
