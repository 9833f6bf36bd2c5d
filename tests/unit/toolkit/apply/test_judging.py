"""Objects are judged in batches, by the worker, and the newest version of each counts."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.apply import health
from toolkit.apply.health import Health, Rule, Status
from toolkit.apply.judging import Judging
from toolkit.errors import TransientError
from toolkit.expressions.evaluator import Case, Evaluator
from toolkit.expressions.expression import BudgetError, Expression, Outcome
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

OWNER, OTHER = ObjectKey("team", "app"), ObjectKey("apps", "app")
(RULE,) = health.rules_of([{"apiVersion": "v1", "kind": "ConfigMap", "current": "data.up == '1'"}])
HEAD = "data.l.all(k, data.l.all(j, "
LONG = HEAD + "&&".join(["j!=''"] * 200) + "))"
(SLOW,) = health.rules_of([{"apiVersion": "v1", "current": LONG}])


def config(up: str = "1", **data: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"up": up, **data}}


def ref(name: str) -> ObjectRef:
    return ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), "team", name)


class Told:
    """Collects what was judged."""

    def __init__(self, count: int) -> None:
        self.found: dict[tuple[ObjectKey, str], tuple[str, Health]] = {}
        self._count = count
        self.complete = asyncio.Event()

    def __call__(
        self, owner: ObjectKey, ref: ObjectRef, seen: str, rule: Rule, found: Health
    ) -> None:
        assert rule in {RULE, SLOW}
        self.found[owner, ref.name] = (seen, found)
        if len(self.found) == self._count:
            self.complete.set()


class Counting:
    """Passes calls on, and counts their cases; the first one waits for the others to gather."""

    def __init__(self, evaluates: Evaluator, error: Exception | None = None) -> None:
        self._evaluates = evaluates
        self._error = error
        self.calls: list[int] = []

    async def evaluate(
        self,
        namespace: str,
        cases: Sequence[Case],
        *,
        shared: Mapping[str, Any] | None = None,
        doubles: bool = False,
    ) -> list[list[Outcome]]:
        self.calls.append(len(cases))
        if self._error and namespace == "apps":
            raise self._error
        return await self._evaluates.evaluate(namespace, cases, shared=shared, doubles=doubles)

    async def problems(self, namespace: str, asked: Sequence[Expression]) -> tuple[str, ...]:
        return await self._evaluates.problems(namespace, asked)


async def run(judging: Judging[str], told: Told) -> None:
    task = asyncio.create_task(judging.run())
    await told.complete.wait()
    task.cancel()
    await asyncio.wait([task])


async def test_the_objects_of_an_owner_are_judged_in_one_call(evaluates: Evaluator) -> None:
    told, counting = Told(3), Counting(evaluates)
    judging = Judging[str](counting, told)
    judging.judge(OWNER, ref("a"), "1", RULE, config("0"))
    judging.judge(OWNER, ref("a"), "2", RULE, config("1"))
    judging.judge(OWNER, ref("b"), "1", RULE, config("0"))
    judging.judge(OTHER, ref("a"), "1", RULE, config("1"))
    awaited = judging.awaits(OWNER, ref("b").identity)

    await run(judging, told)

    assert sorted(counting.calls) == [1, 2]
    assert {each: (seen, found.status) for each, (seen, found) in told.found.items()} == {
        (OWNER, "a"): ("2", Status.CURRENT),
        (OWNER, "b"): ("1", Status.IN_PROGRESS),
        (OTHER, "a"): ("1", Status.CURRENT),
    }
    assert (awaited, judging.awaits(OWNER, ref("b").identity)) == (True, False)


async def test_rules_that_cost_too_much_fail_the_objects_of_their_owner_only(
    evaluates: Evaluator,
) -> None:
    """One such rule held up the controller for 15 seconds."""
    told = Told(2)
    judging = Judging[str](evaluates, told)
    judging.judge(OTHER, ref("a"), "1", SLOW, config(l=[f"c{n}" for n in range(310)]))
    judging.judge(OWNER, ref("a"), "1", RULE, config())

    await run(judging, told)

    slow, usual = told.found[OTHER, "a"][1], told.found[OWNER, "a"][1]
    assert (slow.status, usual.status) == (Status.FAILED, Status.CURRENT)
    assert "too expensive on these values" in slow.message


async def test_a_worker_that_died_of_a_rule_fails_the_objects(evaluates: Evaluator) -> None:
    told = Told(1)
    judging = Judging[str](Counting(evaluates, BudgetError("too much memory")), told)
    judging.judge(OTHER, ref("a"), "1", RULE, config())

    await run(judging, told)

    assert told.found[OTHER, "a"][1] == Health(Status.FAILED, "too much memory")


async def test_objects_that_could_not_be_judged_are_not_awaited_any_more(
    evaluates: Evaluator,
) -> None:
    told = Told(1)
    judging = Judging[str](Counting(evaluates, TransientError("no worker")), told)
    judging.judge(OTHER, ref("a"), "1", RULE, config())
    judging.judge(OWNER, ref("a"), "1", RULE, config())

    await run(judging, told)

    assert list(told.found) == [(OWNER, "a")]
    assert not judging.awaits(OTHER, ref("a").identity)


async def test_objects_that_are_too_expensive_together_are_judged_apart(
    evaluates: Evaluator,
) -> None:
    told, counting = Told(4), Counting(evaluates)
    judging = Judging[str](counting, told)
    entries = [f"c{n}" for n in range(25)]
    for name in "abc":
        judging.judge(OWNER, ref(name), "1", SLOW, config(l=entries))
    judging.judge(OWNER, ref("d"), "1", SLOW, config(l=[*entries, *entries, *entries]))

    await run(judging, told)

    assert {name: found.status for (_, name), (_, found) in told.found.items()} == {
        "a": Status.CURRENT,
        "b": Status.CURRENT,
        "c": Status.CURRENT,
        "d": Status.FAILED,
    }
    assert sum(counting.calls) > 4


class Deadly(Counting):
    """Fails every call with the object ``bad``, as a worker that dies of it."""

    async def evaluate(
        self,
        namespace: str,
        cases: Sequence[Case],
        *,
        shared: Mapping[str, Any] | None = None,
        doubles: bool = False,
    ) -> list[list[Outcome]]:
        if any(bytes(case.given["metadata"]) == b'{"name":"bad"}' for case in cases):
            raise BudgetError("too much memory")
        return await super().evaluate(namespace, cases, shared=shared, doubles=doubles)


async def test_an_object_that_kills_a_worker_fails_alone(evaluates: Evaluator) -> None:
    told = Told(7)
    judging = Judging[str](Deadly(evaluates), told)
    for name in ("a", "b", "c", "bad", "d", "e", "f"):
        judging.judge(OWNER, ref(name), "1", RULE, config() | {"metadata": {"name": name}})

    await run(judging, told)

    failed = {name for (_, name), (_, one) in told.found.items() if one.status is Status.FAILED}
    assert failed == {"bad"}


def test_what_waits_is_bounded_over_owners_and_namespaces(evaluates: Evaluator) -> None:
    judging = Judging[str](evaluates, Told(1))
    large = config(text="x" * (1 << 20))

    def held(namespace: str, number: int) -> bool:
        owner = ObjectKey(namespace, f"app-{number}")
        judging.judge(owner, ref("a"), "1", RULE, large)
        return judging.awaits(owner, ref("a").identity)

    counts = [sum(held(f"team-{team}", number) for number in range(40)) for team in range(20)]

    assert counts[0] == 15
    assert sum(counts) < 64 + len(counts)  # each may have one
    assert all(counts)
    for team in range(20):
        for number in range(40):
            judging.forget(ObjectKey(f"team-{team}", f"app-{number}"))
    assert sum(held("team-19", number) for number in range(40)) == 15
