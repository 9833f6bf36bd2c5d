"""CEL expressions: what they may say, and what they may cost. A worker evaluates them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from toolkit.expressions import evaluator, expression
from toolkit.expressions.evaluator import Case, Evaluator, Step
from toolkit.expressions.expression import BudgetError, Expression, InvalidError, Outcome
from toolkit.native import calls
from toolkit.native.pool import WorkerMemoryError, WorkerStuckError

READY = "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')"
ENTRIES = [f"c{number}" for number in range(310)]


def body(head: str, check: str, tail: str, *, length: int = 4096) -> str:
    """Return an expression of this length that makes a check as often as fits."""
    count = (length - len(head) - len(tail)) // (len(check) + 2)
    return head + "&&".join([check] * count) + tail


SLOW = body("dep.spec.components.all(x, dep.spec.components.all(y, ", "y!=''", "))")


def _status(*conditions: tuple[str, str]) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": t, "status": s} for t, s in conditions]}}


async def outcome(evaluates: Evaluator, text: str, given: dict[str, Any]) -> Outcome:
    steps = [Step(expression=Expression(text=text, result=""))]
    ((found,),) = await evaluates.evaluate("team", [Case(given=given, steps=steps)])
    return found


async def holds(evaluates: Evaluator, text: str, given: dict[str, Any]) -> bool:
    found = await outcome(evaluates, text, given)
    return expression.holds(Expression(text=text), found)


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        (READY, _status(("Ready", "True"), ("Other", "False")), True),
        (READY, _status(("Ready", "False")), False),
        (READY, {}, False),
        ("status.missing == 1", _status(), False),
        ("has(status.missing)", _status(), False),
        ("!has(status.missing)", _status(), True),
        ("status.conditions[3].type == 'x'", _status(), False),
        ("status.conditions > 3", _status(), False),
        ("1 / int(size(status.conditions)) == 1", _status(), False),
        ("metadata.name.matches('^a+$')", {"metadata": {"name": "aaa"}}, True),
        ("metadata.generation == 2.0", {"metadata": {"generation": 2}}, True),
        ("status.conditions == null", {"status": {"conditions": None}}, True),
    ],
)
async def test_missing_fields_and_mixed_types_are_false(
    evaluates: Evaluator, text: str, given: dict[str, Any], *, expected: bool
) -> None:
    assert await holds(evaluates, text, given) is expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 +", "mismatched input"),
        ("", "mismatched input"),
        ("nosuch(1) == 1", "undeclared reference to 'nosuch'"),
        ("x" * 5000, "longer than 4096"),
        ("(" * 1000 + "1" + ")" * 1000, "recursion"),
        ("a.matches('(')", "missing closing"),
        ("1 + 1", "yields int, not bool"),
    ],
)
async def test_what_cannot_be_evaluated_is_told(evaluates: Evaluator, text: str, why: str) -> None:
    asked = Expression(text=text)

    (problem,) = await evaluates.problems("team", [asked])

    assert why in problem
    with pytest.raises(InvalidError) as caught:
        await evaluator.require_valid(evaluates, "team", {"spec.x": asked})
    assert caught.value.reason == "InvalidCELExpression"
    assert str(caught.value).startswith("spec.x: ")
    with pytest.raises(InvalidError):
        await evaluates.evaluate("team", [Case(given={}, steps=[Step(expression=asked)])])


async def test_a_name_that_is_not_given_is_told(evaluates: Evaluator) -> None:
    asked = Expression(text="dpe.status.ready", variables=("self", "dep"))

    assert "undeclared reference to 'dpe'" in (await evaluates.problems("team", [asked]))[0]


HOSTILE = {
    "parens": "(" * 2040 + "1" + ")" * 2040,
    "lists": "[" * 2040 + "]" * 2040,
    "not": "!" * 4090 + "a",
    "minus": "- " * 2040 + "1",
    "member": "a" + ".b" * 2040,
    "index": "a" + "[0]" * 1300,
    "ternary": "a?b:" * 1000 + "c",
    "nested ternary": "a?" * 1000 + "b" + ":c" * 1000,
    "and": "a&&" * 1300 + "a",
    "plus": "a+" * 2040 + "a",
    "calls": "size(" * 800 + "a" + ")" * 800,
    "maps": "{1:" * 1000 + "1" + "}" * 1000,
    "macros": "a.all(x," * 500 + "x" + ")" * 500,
    "string": "'" + "\\" * 4000,
    "less": "a<" * 2040 + "a",
    "mixed": "(a&&(b||" * 500 + "c" + "))" * 500,
    "has": "has(" * 1000 + "a.b" + ")" * 1000,
    "open": "(" * 4090,
    "open lists": "[" * 4090,
    "open ternary": "a?" * 2040,
    "pattern": "a.matches('" + "(" * 9 + "x" + "{1000})" * 9 + "')",
}


@pytest.mark.parametrize("nested", ["[" * 65 + "]" * 65, "a" + ".map(x, [x])" * 65])
async def test_an_expression_that_is_nested_too_deep_is_told(
    evaluates: Evaluator, nested: str
) -> None:
    (problem,) = await evaluates.problems("team", [Expression(text=nested, result="")])

    assert "nested more than 64 levels deep: nest them less" in problem


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_text_is_judged_and_the_worker_lives(evaluates: Evaluator, text: str) -> None:
    asked = Expression(text=text, result="")

    (problem,) = await evaluates.problems("team", [asked])

    assert len(problem) < 300
    assert await holds(evaluates, "true", {})
    if not problem:
        await outcome(evaluates, text, {"a": {"b": [1]}, "b": True, "c": True})


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (SLOW, {"dep": {"spec": {"components": ENTRIES}}}),
        ("x.all(a, x.all(b, a == b || a != b))", {"x": list(range(1000))}),
        ("x.map(a, x.map(b, x)) == []", {"x": list(range(2000))}),
        ("x" + "+x" * 200 + " == ''", {"x": "a" * 1_000_000}),
        ("x.exists(a, a.matches(p))", {"x": ["c" * 1000] * 1000, "p": "(c|d){1,50}e"}),
        ("['" + "y" * 400 + "']" + ".map(x,x+x+x+x+x)" * 10 + "[0].size() > 0", {}),
        ("x.all(i, [s, s].join(s) != '')", {"x": list(range(1000)), "s": "a" * 100_000}),
    ],
)
async def test_what_costs_too_much_is_refused_when_evaluated(
    evaluates: Evaluator, text: str, given: dict[str, Any]
) -> None:
    with pytest.raises(BudgetError, match="too expensive on these values") as caught:
        await holds(evaluates, text, given)

    assert caught.value.reason == "InvalidCELExpression"
    assert "shorter lists" in str(caught.value)


async def test_all_evaluations_of_a_call_share_one_budget(evaluates: Evaluator) -> None:
    asked = Expression(text=body("l.all(x, l.all(y, ", "y!=''", "))", length=60))
    cases = [Case(given={"l": ENTRIES[:150]}, steps=[Step(expression=asked)])] * 60

    found = await evaluates.evaluate("team", cases)

    kinds = [each.kind for (each,) in found]
    assert (kinds[0], kinds[-1]) == ("bool", "spent")


async def test_the_budget_lasts_over_the_portions_of_large_cases(evaluates: Evaluator) -> None:
    asked = Expression(text="size(x) > 0 && l.all(a, l.all(b, a != '' || b != ''))")
    given = {"x": "a" * 1_500_000, "l": ENTRIES}
    cases = [Case(given=given, steps=[Step(expression=asked)])] * 6

    found = await evaluates.evaluate("team", cases)

    kinds = [each.kind for (each,) in found]
    assert (kinds[0], kinds[-1]) == ("bool", "spent")


async def test_large_fields_that_are_not_looked_at_cost_nothing(evaluates: Evaluator) -> None:
    given = _status(("Ready", "True")) | {"spec": {"items": list(range(1_000_000))}}

    assert await holds(evaluates, READY, given)


async def test_a_result_that_is_no_bool_is_refused(evaluates: Evaluator) -> None:
    with pytest.raises(InvalidError, match="does not yield a bool"):
        await holds(evaluates, "status.phase", {"status": {"phase": "Done"}})


async def test_a_value_is_seen_by_the_steps_after_it(evaluates: Evaluator) -> None:
    names = ("claims", "vars")
    steps = [
        Step(
            expression=Expression(text="claims.sub.split(':')", variables=names, result=""),
            bind="parts",
            into="vars",
        ),
        Step(expression=Expression(text="vars.parts[1] == 'b'", variables=names)),
    ]
    given = {"claims": {"sub": "a:b"}, "vars": {}}

    ((_, last),) = await evaluates.evaluate("team", [Case(given=given, steps=steps)])

    assert last == Outcome(kind="bool", true=True)


@pytest.fixture
async def own() -> AsyncIterator[Evaluator]:
    """Return an evaluator whose workers may die."""
    made = evaluator.start()
    yield made
    await made.close()


KILLED = {
    "memory": ("s.replace('a', s) == ''", {"s": "a" * 1_000_000}, "MiB of memory"),
    "processor": (
        "[1]" + ".map(x,[x,x])" * 40 + " == [1]" + ".map(x,[x,x])" * 40,
        {},
        "of processor time",
    ),
}


@pytest.mark.parametrize(("text", "given", "why"), KILLED.values(), ids=KILLED)
async def test_a_step_that_takes_too_much_at_once_fails_alone(
    own: Evaluator, text: str, given: dict[str, Any], why: str
) -> None:
    with pytest.raises(BudgetError, match=why) as caught:
        await holds(own, text, given)

    assert "use simpler expressions" in str(caught.value)
    assert await holds(own, "true", {})


async def test_the_loop_runs_on_while_a_worker_evaluates(own: Evaluator) -> None:
    text, given, _ = KILLED["processor"]
    task = asyncio.create_task(holds(own, text, given))
    while not task.done():
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() - before < 1.0

    with pytest.raises(BudgetError):
        await task


def test_more_expressions_than_are_compiled_are_refused() -> None:
    with pytest.raises(InvalidError, match="use fewer"):
        expression.require_few(["true"] * 257)
    with pytest.raises(InvalidError, match="use fewer"):
        expression.require_few(["x" * 4000] * 17)


@pytest.mark.parametrize("text", ["size(x) == 3", "x.all(a, x.all(b, a == b || a != b))"])
async def test_what_was_checked_can_be_evaluated_many_times(own: Evaluator, text: str) -> None:
    """The process of a controller checks an expression first, and evaluates it then."""
    assert await own.problems("team", [Expression(text=text)]) == ("",)

    for _ in range(3):
        assert await holds(own, text, {"x": [1, 2, 3]})


async def test_memory_that_others_have_used_is_not_missing(own: Evaluator) -> None:
    patterns = " || ".join(rf"'a{n}'.matches('^\\pL{{900}}$')" for n in range(5))
    assert await own.problems("a", [Expression(text=patterns)]) == ("",)

    given = {"l": ["x" * 1_000_000] * 3, "m": {str(n): n for n in range(100_000)}}
    for _ in range(3):
        assert await holds(own, "size(l[0]) > 5", given)


async def test_a_worker_that_was_used_is_replaced_when_it_has_too_little_memory(
    monkeypatch: pytest.MonkeyPatch, own: Evaluator
) -> None:
    asked: list[bool] = []

    async def call(*_: object, fresh: bool = False, **__: object) -> Any:
        asked.append(fresh)
        if not fresh:
            raise WorkerMemoryError("used", limit=1, fresh=False)
        return {"problems": [""], "seconds": 0}

    monkeypatch.setattr(calls, "call", call)

    assert await own.problems("team", [Expression(text="true")]) == ("",)
    assert asked == [False, True]


@pytest.mark.parametrize("given_up", [False, True])
async def test_workers_with_a_share_rest_after_failures_too(
    monkeypatch: pytest.MonkeyPatch, *, given_up: bool
) -> None:
    now = 0.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def call(*_: object, **__: object) -> Any:
        nonlocal now
        now += 2.0
        if given_up:
            raise asyncio.CancelledError
        raise WorkerStuckError("it uses more than 2s of processor time")

    monkeypatch.setattr(calls, "call", call)
    pool = calls.start(size=1)
    rests = Evaluator(pool, share=0.2, monotonic=lambda: now, sleep=sleep)
    for _ in range(2):
        with pytest.raises((BudgetError, asyncio.CancelledError)):
            await rests.problems("team", [Expression(text="true")])

    assert slept == [0.0, 8.0]


class Workers:
    """What asks the workers: requests run until the test ends them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: list[tuple[str, asyncio.Future[None]]] = []
        self.now = 0.0
        monkeypatch.setattr(calls, "call", self._call)
        pool = calls.start(size=1)
        self.evaluator = Evaluator(pool, workers=2, monotonic=lambda: self.now)

    async def _call(self, *_: object, flow: str, **__: object) -> Any:
        ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.running.append((flow, ends))
        try:
            await ends
        finally:
            self.running.remove((flow, ends))
        return {"problems": [""], "seconds": 0}

    def ask(self, namespace: str, count: int = 1) -> list[asyncio.Task[tuple[str, ...]]]:
        texts = [f"{number} == {number}" for number in range(count)]
        return [
            asyncio.create_task(self.evaluator.problems(namespace, [Expression(text=text)]))
            for text in texts
        ]

    async def kill(self) -> None:
        """Let every running request end its worker."""
        for _, ends in list(self.running):
            ends.set_exception(WorkerStuckError("it uses more than 1s of processor time"))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def flows(self) -> list[str]:
        return sorted(flow for flow, _ in self.running)


async def test_namespaces_that_end_workers_never_have_all_of_them_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers(monkeypatch)
    hostile = [task for name in ("evil-1", "evil-2", "evil-3") for task in workers.ask(name, 4)]
    await workers.settle()
    assert workers.flows == ["evil-1", "evil-2"]  # Nothing is known of them yet.
    await workers.kill()
    await workers.kill()

    innocent = workers.ask("team")
    await workers.settle()

    assert workers.flows == ["(costly)", "team"]
    workers.now = 301.0
    for task in (*hostile, *innocent):
        task.cancel()
    await asyncio.gather(*hostile, *innocent, return_exceptions=True)
    forgiven = workers.ask("evil-1") + workers.ask("evil-2")
    await workers.settle()
    assert workers.flows == ["evil-1", "evil-2"]
    for task in forgiven:
        task.cancel()
