"""Waiting for what was applied, by watch events alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.tools.waiting import SECONDS
from toolkit.apply.live import LiveSet
from toolkit.apply.options import MANAGER
from toolkit.apply.ownership import Owner
from toolkit.apply.wait import Verdict, Waits, vanishing
from toolkit.expressions.evaluator import Evaluator
from toolkit.kube.client import Client
from toolkit.objects import Json, ObjectKey, ObjectRef, gvk_of, ref_of


class Waiting:
    """A live set and waits that are told by it, as a controller wires them."""

    def __init__(self, api: Client, evaluates: Evaluator) -> None:
        self.verdicts: asyncio.Queue[ObjectKey] = asyncio.Queue()
        self.healths: asyncio.Queue[ObjectRef] = asyncio.Queue()
        self.drifts: list[ObjectRef] = []
        self.live = LiveSet(
            api,
            manager=MANAGER,
            evaluates=evaluates,
            on_drift=self._drift,
            on_health=self._health,
        )
        self.waits = Waits(self.live, self.verdicts.put_nowait)

    def _health(self, owner: ObjectKey, ref: ObjectRef) -> None:
        self.waits.changed(owner, ref)
        self.healths.put_nowait(ref)

    def _drift(
        self, owner: ObjectKey, ref: ObjectRef, *, managers: tuple[str, ...], deleted: bool
    ) -> None:
        del owner, managers, deleted
        self.drifts.append(ref)

    async def verdict(self, owner: Owner, begun: Verdict) -> Verdict:
        if begun.state == "waiting":
            async with asyncio.timeout(SECONDS):
                assert await self.verdicts.get() == owner.key
        verdict = self.waits.verdict(owner.key)
        assert verdict
        return verdict


@pytest.fixture
async def waiting(api: Client, evaluates: Evaluator) -> AsyncIterator[Waiting]:
    made = Waiting(api, evaluates)
    tasks = [asyncio.create_task(made.live.run()), asyncio.create_task(made.waits.run())]
    yield made
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _apply(apply: Any, waiting: Waiting, owner: Owner, *objects: Json) -> None:
    waiting.live.ensure(owner.key, {gvk_of(obj) for obj in objects})
    waiting.live.hold(owner.key, {ref_of(each).identity for each in objects})
    changes = await apply(*objects)
    waiting.live.expect(owner.key, changes.known)


async def test_objects_become_healthy_without_being_asked(
    apply: Any, make: Any, owner: Owner, waiting: Waiting, wire: Any
) -> None:
    objects = [make.deployment(), make.config_map(), make.service()]
    await _apply(apply, waiting, owner, *objects)
    wire.sent.clear()

    begun = waiting.waits.begin(owner.key, map(ref_of, objects), timeout=SECONDS)
    verdict = await waiting.verdict(owner, begun)

    assert (verdict.state, verdict.pending) == ("healthy", ())
    assert "GET" not in wire.sent


async def test_the_health_before_an_apply_does_not_end_the_wait_after_it(
    apply: Any, make: Any, owner: Owner, waiting: Waiting
) -> None:
    deployment = make.deployment()
    await _apply(apply, waiting, owner, deployment)
    begun = waiting.waits.begin(owner.key, [ref_of(deployment)], timeout=SECONDS)
    assert (await waiting.verdict(owner, begun)).state == "healthy"
    # no node can take this pod, so the new revision can never be healthy
    stuck = make.deployment(image="nginx:2")
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}

    await _apply(apply, waiting, owner, stuck)
    begun = waiting.waits.begin(owner.key, [ref_of(stuck)], timeout=3)
    verdict = await waiting.verdict(owner, begun)

    assert verdict.state == "timeout"
    assert str(verdict).startswith(f"Deployment/{owner.namespace}/web status: 'InProgress': ")


async def test_a_wait_ends_early_when_an_object_fails(
    apply: Any, make: Any, owner: Owner, waiting: Waiting
) -> None:
    claim = make("v1", "PersistentVolumeClaim", "data", spec=_CLAIM)
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    template = {"spec": pod}
    job = make("batch/v1", "Job", "fails", spec={"template": template, "activeDeadlineSeconds": 1})
    job["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
    await _apply(apply, waiting, owner, claim, job)

    begun = waiting.waits.begin(owner.key, [ref_of(claim), ref_of(job)], timeout=SECONDS)
    verdict = await waiting.verdict(owner, begun)

    assert verdict.state == "failed"
    assert "Job Failed" in str(verdict)


async def test_a_job_that_deletes_itself_is_done_and_does_not_run_again(
    apply: Any, make: Any, owner: Owner, waiting: Waiting, wire: Any
) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    job = make(
        *("batch/v1", "Job", "once"),
        spec={"template": {"spec": pod}, "ttlSecondsAfterFinished": 0},
    )
    await _apply(apply, waiting, owner, job)
    begun = waiting.waits.begin(
        owner.key, [ref_of(job)], timeout=SECONDS, may_vanish=vanishing([job])
    )
    verdict = await waiting.verdict(owner, begun)
    async with asyncio.timeout(SECONDS):
        while waiting.live.find(ref_of(job)):
            await waiting.healths.get()
    wire.sent.clear()

    again = await apply(job, known=waiting.live.known(owner.key))

    assert verdict.state == "healthy"
    assert (again.entries[0].action, wire.sent) == ("unchanged", [])
    assert waiting.drifts == []


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
