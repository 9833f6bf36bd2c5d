"""What the controller does around every pass, seen in the objects that it leaves behind."""

import asyncio
import functools
import itertools
import logging
from typing import Any

import prometheus_client
import pytest

import crds
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.controllerbench import (
    KEY,
    REPOS,
    SPEC,
    Bench,
    Pass,
    nothing,
    raising,
    succeed,
    work,
)
from toolkit.errors import AccessDeniedError, StalledError, Told, TransientError, WaitingError
from toolkit.kube.controller import Controller, ControllerOptions, Outcome
from toolkit.kube.reconciliation import FINALIZER, REQUESTED_AT
from toolkit.objects import ObjectKey


def test_success_is_ready_with_finalizer_and_observed_generation() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put(generation=3)
        await bench.until(lambda: bench.condition("Ready"))
        await bench.idle()

    bench = work(scenario)

    assert bench.object["metadata"]["finalizers"] == [FINALIZER]
    assert bench.condition("Ready") == ("True", "Succeeded", "fine")
    assert bench.status["observedGeneration"] == 3
    assert [entry["type"] for entry in bench.status["conditions"]] == ["Ready"]
    assert bench.status["conditions"][0]["observedGeneration"] == 3


def test_own_writes_start_no_pass() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        await asyncio.sleep(60)

    bench = work(scenario)

    assert bench.passes == [{"spec"}]
    assert bench.status_writes == 1


def test_objects_that_are_there_at_the_start_get_a_start_pass() -> None:
    async def main() -> Bench:
        server = FakeApiServer()
        async with server.running() as client:
            bench = Bench(server, client)
            bench.put()
            bench.put("b", annotations={REQUESTED_AT: "while nobody ran"})
            watching = asyncio.create_task(bench.controller.informer.run())
            await bench.controller.informer.wait_synced()
            running = asyncio.create_task(bench.controller.run())
            await bench.until(lambda: len(bench.passes) == 2)
            await bench.controller.stop()
            watching.cancel()
            await asyncio.wait([watching, running])
        return bench

    bench = virtualtime.run(main)

    assert bench.passes == [{"start"}, {"start", "requested"}]


def test_the_interval_starts_the_next_pass() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: len(bench.passes) == 3)

    bench = work(scenario)

    assert bench.passes == [{"spec"}, {"interval"}, {"interval"}]
    assert bench.times[1] - bench.times[0] == pytest.approx(600, abs=1)


def test_the_interval_is_spread() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(8):
            bench.put(f"repo-{number}")
        await bench.until(lambda: len(bench.passes) == 16)

    bench = work(scenario, interval_jitter=0.05)

    second = bench.times[8:]
    assert max(second) - min(second) > 1
    assert all(569 < when < 632 for when in second)


def test_an_unchanged_result_writes_nothing_and_tells_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: len(bench.passes) == 3)
        await bench.idle()

    bench = work(scenario)

    assert bench.status_writes == 1
    assert [event.message for event in bench.events] == ["fine"]


def test_a_change_of_the_spec_starts_a_pass() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(generation=2))
        await bench.until(lambda: len(bench.passes) == 2)
        await bench.idle()

    bench = work(scenario)

    assert bench.passes == [{"spec"}, {"spec"}]
    assert bench.status["observedGeneration"] == 2


def test_a_static_object_is_left_alone() -> None:
    async def scenario(bench: Bench) -> None:
        # As Flux leaves it: a status, and nothing in it.
        bench.server.put(REPOS, "a", spec=SPEC | {"url": "ssh://git.test/a"}, status={})
        await bench.idle()

    bench = work(scenario)

    assert bench.passes == []
    assert bench.server.count("PATCH", "") == bench.server.count("PUT", "") == 0


@pytest.mark.parametrize("suspend", [False, True])
def test_an_object_that_nothing_holds_gets_no_finalizer(*, suspend: bool) -> None:
    async def scenario(bench: Bench) -> None:
        spec = SPEC | ({"suspend": True} if suspend else {})
        made = {"labels": {"example.com/made": ""}, "generation": 1}
        bench.server.put(REPOS, "a", spec=spec, metadata=made, status=dict(NEVER_SEEN))
        await bench.until(lambda: bench.status != NEVER_SEEN)
        await bench.idle()
        assert "finalizers" not in bench.object["metadata"]
        bench.server.remove(REPOS, "a")
        await bench.idle()

    bench = work(scenario)

    assert (len(bench.passes), bench.finalized) == (0 if suspend else 1, [])
    assert (bench.server.count("PUT", "/status"), bench.server.count("PATCH", "")) == (1, 0)


def test_an_object_that_nothing_holds_is_finalized_if_it_has_the_finalizer() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put(labels={"example.com/made": ""}, finalizers=[FINALIZER])
        await bench.until(lambda: bench.condition("Ready"))
        bench.server.remove(REPOS, "a")
        await bench.until(lambda: bench.finalized)
        await bench.idle()

    bench = work(scenario)

    assert bench.finalized == ["a"]
    assert (REPOS, "default", "a") not in bench.server.objects


NEVER_SEEN = {"observedGeneration": -1}
"""What the definition's default puts into the status of a new object."""


def unseen(server: FakeApiServer, **spec: Any) -> None:
    server.put(REPOS, "a", spec=SPEC | spec, status=dict(NEVER_SEEN))


@pytest.mark.parametrize("spec", [{"url": "ssh://git.test/a"}, {"suspend": True}])
@pytest.mark.parametrize("before", [True, False], ids=["stored", "new"])
def test_an_object_that_nothing_is_done_for_is_settled(
    spec: dict[str, Any], *, before: bool
) -> None:
    def put(server: FakeApiServer) -> None:
        unseen(server, **spec)

    async def scenario(bench: Bench) -> None:
        if not before:
            put(bench.server)
        await bench.until(lambda: bench.status == {"observedGeneration": 1})
        bench.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(generation=2))
        await bench.until(lambda: bench.status == {"observedGeneration": 2})
        await bench.idle()

    bench = work(scenario, stored=put) if before else work(scenario)

    assert bench.passes == []
    assert bench.events == []
    assert bench.status_writes == 2
    held = ["finalizers.fluxcd.io"] if "suspend" in spec else []
    assert bench.object["metadata"].get("finalizers", []) == held


def test_a_suspended_object_that_was_reconciled_keeps_what_was_observed() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

        def suspend(obj: dict[str, Any]) -> None:
            obj["metadata"].update(generation=2)
            obj["spec"].update(suspend=True)

        bench.server.edit(REPOS, "a", suspend)
        await bench.idle()

    bench = work(scenario)

    assert bench.status["observedGeneration"] == 1
    assert bench.status_writes == 1


def test_settling_is_tried_again_until_the_server_takes_it() -> None:
    async def scenario(bench: Bench) -> None:
        bench.fail_status(403, times=1)
        unseen(bench.server, url="ssh://git.test/a")
        await bench.until(lambda: bench.status == {"observedGeneration": 1})

    work(scenario)


def test_an_object_that_is_switched_off_stays_as_the_last_pass_left_it() -> None:
    async def off(_: Pass) -> Outcome:
        return Outcome(message="switched off", untouched=True)

    async def scenario(bench: Bench) -> None:
        bench.script = raising(TransientError("no luck", reason="BuildFailed"))
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.script = off
        before = bench.status_writes
        bench.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(generation=2))
        await bench.until(lambda: len(bench.passes) > 1)
        await asyncio.sleep(7200)
        counts.extend((before, bench.status_writes))

    counts: list[int] = []
    bench = work(scenario)

    assert bench.condition("Ready") == ("False", "BuildFailed", "no luck")
    assert counts[0] == counts[1]
    assert len(bench.passes) == 2


def test_a_kind_has_its_own_finalizer_where_it_says_so() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        seen.extend(bench.object["metadata"]["finalizers"])
        bench.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(deletionTimestamp="now"))
        await bench.until(lambda: not bench.server.objects)

    seen: list[str] = []
    bench = work(scenario, finalizer="example.com/own")

    assert seen == ["example.com/own"]
    assert bench.finalized == ["a"]


def test_an_object_that_becomes_static_is_taken_back() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

        def become_static(obj: dict[str, Any]) -> None:
            obj["metadata"].update(generation=2)
            obj["spec"].update(url="ssh://git.test/a")

        bench.server.edit(REPOS, "a", become_static)
        await bench.until(lambda: FINALIZER not in bench.object["metadata"]["finalizers"])
        await bench.idle()

    bench = work(scenario)

    assert len(bench.passes) == 1
    assert bench.finalized == ["a"]
    assert bench.status == {"observedGeneration": 2}


def test_a_request_starts_a_pass_and_is_acknowledged() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.put(annotations={REQUESTED_AT: "now"})
        await bench.until(lambda: "lastHandledReconcileAt" in bench.status)
        await bench.idle()

    bench = work(scenario)

    assert bench.passes == [{"spec"}, {"requested"}]
    assert bench.status["lastHandledReconcileAt"] == "now"


def test_a_quiet_pass_still_acknowledges_a_request() -> None:
    async def script(_: Pass) -> Outcome:
        return Outcome(message="other words", quiet=True)

    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.script = script
        bench.controller.enqueue(KEY, "source")
        await bench.until(lambda: len(bench.passes) == 2)
        await bench.idle()
        assert bench.condition("Ready") == ("True", "Succeeded", "fine")
        bench.put(annotations={REQUESTED_AT: "now"})
        await bench.until(lambda: "lastHandledReconcileAt" in bench.status)

    bench = work(scenario)

    assert [event.message for event in bench.events] == ["fine"]


def test_a_quiet_pass_clears_an_earlier_failure() -> None:
    async def script(_: Pass) -> Outcome:
        return Outcome(message="fine again", quiet=True)

    async def scenario(bench: Bench) -> None:
        bench.script = raising(TransientError("no route", reason="FetchFailed"))
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.script = script
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "True")

    bench = work(scenario)

    assert bench.condition("Reconciling") is None


def test_a_transient_error_is_retried_with_back_off() -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(TransientError("no route", reason="FetchFailed"))
        bench.put()
        await bench.until(lambda: len(bench.passes) == 4)

    bench = work(scenario, min_retry_delay=1.0)

    assert bench.condition("Ready") == ("False", "FetchFailed", "no route")
    assert bench.condition("Reconciling") == ("True", "ProgressingWithRetry", "no route")
    assert bench.condition("Stalled") is None
    assert bench.status.get("observedGeneration", -1) == -1
    assert bench.passes[1:] == [{"retry"}] * 3
    gaps = [after - before for before, after in zip(bench.times, bench.times[1:], strict=False)]
    for gap, expected in zip(gaps, [1, 2, 4], strict=True):
        assert gap == pytest.approx(expected, rel=0.2)
    assert {event.severity for event in bench.events} == {"error"}
    assert bench.status_writes == 1


def test_success_starts_the_back_off_anew() -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(TransientError("no route"))
        bench.put()
        await bench.until(lambda: len(bench.passes) == 4)
        bench.script = succeed
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "True")
        bench.script = raising(TransientError("no route"))
        bench.controller.enqueue(KEY, "source")
        await bench.until(lambda: len(bench.passes) == 7)

    bench = work(scenario, min_retry_delay=1.0)

    assert bench.times[6] - bench.times[5] == pytest.approx(1, rel=0.2)


def test_back_off_goes_on_if_each_attempt_is_in_progress_for_a_while() -> None:
    attempts: list[float] = []

    async def script(rec: Pass) -> Outcome:
        if "interval" in rec.triggers:
            raise TransientError("not healthy")
        attempts.append(asyncio.get_running_loop().time())
        return Outcome(
            message="checking health", reason="Progressing", ready="Unknown", requeue_after=0.1
        )

    async def scenario(bench: Bench) -> None:
        bench.script = script
        bench.put()
        await bench.until(lambda: len(attempts) == 5)

    work(scenario, min_retry_delay=1.0, interval_jitter=0.0)

    pauses = [after - before for before, after in itertools.pairwise(attempts)]
    assert pauses == pytest.approx([1, 2, 4, 8], rel=0.3)


def test_a_pass_replaces_the_retry_that_was_planned() -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(TransientError("no route"))
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.script = succeed
        bench.controller.enqueue(KEY, "source")
        await asyncio.sleep(300)

    bench = work(scenario, min_retry_delay=60.0)

    assert bench.passes == [{"spec"}, {"source"}]


@pytest.mark.parametrize("error", [StalledError, AccessDeniedError])
def test_a_stalled_object_waits_for_a_change(error: type[StalledError]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(error("bad url", reason="URLInvalid"))
        bench.put()
        await bench.until(lambda: bench.condition("Stalled"))
        await asyncio.sleep(3600)

    bench = work(scenario)

    assert len(bench.passes) == 1
    assert bench.condition("Ready") == ("False", "URLInvalid", "bad url")
    assert bench.condition("Stalled") == ("True", "URLInvalid", "bad url")
    assert bench.condition("Reconciling") is None
    assert bench.status["observedGeneration"] == 1


def test_a_long_message_is_cut_in_condition_and_event() -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(StalledError("x" * 40_000, reason="URLInvalid"))
        bench.put()
        await bench.until(lambda: bench.condition("Stalled"))

    bench = work(scenario)

    (ready, (event,)) = bench.condition("Ready"), bench.events
    assert ready
    assert ready[2] == event.message
    assert len(event.message) <= 2048


def test_what_is_only_traced_does_not_keep_a_recovery_back() -> None:
    async def tracing(rec: Pass) -> Outcome:
        rec.event("trace", "ArtifactUpToDate", "as before")
        return Outcome(message="fine")

    async def scenario(bench: Bench) -> None:
        bench.script = tracing
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

    bench = work(scenario)

    assert [event.severity for event in bench.events] == ["trace", "info"]


def test_a_waiting_object_is_looked_at_after_the_dependency_delay() -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(WaitingError("dependency 'x/y' is not ready"))
        bench.put()
        await bench.until(lambda: len(bench.passes) == 3)

    bench = work(scenario, requeue_dependency=30.0)

    assert bench.condition("Ready") == (
        "False",
        "DependencyNotReady",
        "dependency 'x/y' is not ready",
    )
    assert bench.passes[1:] == [{"dependency"}] * 2
    assert bench.times[2] - bench.times[1] == pytest.approx(30, abs=1)
    assert [event.severity for event in bench.events] == ["info"]


def test_a_waiting_error_may_say_when() -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(WaitingError("soon", retry_after=2.0))
        bench.put()
        await bench.until(lambda: len(bench.passes) == 2)

    bench = work(scenario)

    assert bench.times[1] - bench.times[0] == pytest.approx(2, abs=0.5)


def test_a_wait_that_is_over_in_a_moment_writes_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        told = Told(event="", unwritten=True)
        bench.script = raising(WaitingError("in a moment", retry_after=1.0, told=told))
        bench.put()
        await bench.until(lambda: len(bench.passes) == 2)

    bench = work(scenario)

    assert bench.condition("Ready") is None
    assert bench.times[1] - bench.times[0] == pytest.approx(1, abs=0.5)
    assert bench.events == []


def test_an_unexpected_error_shows_no_internals_and_is_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.script = raising(KeyError("hunter2"))
        bench.put()
        await bench.until(lambda: len(bench.passes) == 2)

    bench = work(scenario)

    ready = bench.condition("Ready")
    assert ready
    assert ready[1] == "ReconciliationFailed"
    assert "internal error (KeyError)" in ready[2]
    assert "hunter2" not in str(bench.status)
    assert any(record.exc_info for record in caplog.records)


def test_an_error_from_a_task_group_is_seen_through() -> None:
    async def script(rec: Pass) -> Outcome:
        async with asyncio.TaskGroup() as group:
            group.create_task(raising(StalledError("bad", reason="Bad"))(rec))  # type: ignore[arg-type] # a coroutine
        raise AssertionError

    async def scenario(bench: Bench) -> None:
        bench.script = script
        bench.put()
        await bench.until(lambda: bench.condition("Stalled"))

    assert work(scenario).condition("Stalled") == ("True", "Bad", "bad")


def test_a_worker_outlives_the_cancellation_of_what_it_waited_for() -> None:
    async def scenario(bench: Bench) -> None:
        async def script(_: Pass) -> Outcome:
            if len(bench.passes) < 4:
                shared = asyncio.create_task(asyncio.sleep(60))
                asyncio.get_running_loop().call_later(1, shared.cancel)
                await shared
            return Outcome(message="fine")

        bench.script = script
        bench.put()
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "False")
        assert bench.condition("Ready") == (
            "False",
            "Failed",
            "the work was cancelled from within",
        )
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "True")

    assert len(work(scenario, concurrent=1).passes) == 4


def test_an_object_deleted_under_a_task_group_is_nobody_s_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        async def vanish(rec: Pass) -> Outcome:
            del bench.server.objects[(REPOS, "default", "a")]
            async with asyncio.TaskGroup() as group:
                group.create_task(rec.progress("too late"))
            raise AssertionError

        bench.script = vanish
        bench.put()
        await bench.until(lambda: bench.passes)
        await bench.idle()

    with caplog.at_level(logging.WARNING):
        bench = work(scenario)

    assert not bench.events
    assert not caplog.records


def test_a_suspended_object_is_left_alone_until_it_is_resumed() -> None:
    async def scenario(bench: Bench) -> None:
        bench.server.put(REPOS, "a", spec={**SPEC, "suspend": True}, status={})
        await asyncio.sleep(60)
        assert not bench.passes
        assert not bench.status_writes
        bench.server.put(REPOS, "a", spec=SPEC, metadata={"generation": 2})
        await bench.until(lambda: bench.condition("Ready"))

    assert work(scenario).passes == [{"spec"}]


def test_suspending_cancels_the_planned_pass() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        suspended = {"spec": {**SPEC, "suspend": True}}
        bench.server.edit(REPOS, "a", lambda obj: obj.update(suspended))
        bench.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(generation=2))
        await asyncio.sleep(2000)

    assert len(work(scenario).passes) == 1


def test_a_deleted_object_is_finalized_and_released() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put(finalizers=["other.example.com"])
        await bench.until(lambda: bench.condition("Ready"))
        bench.server.remove(REPOS, "a")
        await bench.until(lambda: bench.object["metadata"]["finalizers"] == ["other.example.com"])
        await bench.idle()

    bench = work(scenario)

    assert bench.finalized == ["a"]
    assert len(bench.passes) == 1


def test_a_suspended_object_is_finalized_too() -> None:
    async def scenario(bench: Bench) -> None:
        meta = {"finalizers": [FINALIZER]}
        bench.server.put(REPOS, "a", spec={**SPEC, "suspend": True}, metadata=meta)
        await bench.idle()
        bench.server.remove(REPOS, "a")
        await bench.until(lambda: not bench.server.objects)

    assert work(scenario).finalized == ["a"]


def test_a_failing_finalizer_keeps_the_object_and_is_retried() -> None:
    async def refuse(_: Pass) -> None:
        raise TransientError("cannot delete", reason="DeletionFailed")

    async def scenario(bench: Bench) -> None:
        bench.farewell = refuse
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.server.remove(REPOS, "a")
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "False")
        assert bench.object["metadata"]["finalizers"] == [FINALIZER]
        bench.farewell = nothing
        await bench.until(lambda: not bench.server.objects)

    assert work(scenario).finalized == ["a"]


def test_another_controller_s_finalizer_survives_a_conflict() -> None:
    async def scenario(bench: Bench) -> None:
        async def meddle(_: Pass) -> None:
            bench.server.edit(
                REPOS, "a", lambda obj: obj["metadata"]["finalizers"].append("late.io")
            )

        bench.farewell = meddle
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        bench.server.remove(REPOS, "a")
        await bench.until(lambda: bench.object["metadata"]["finalizers"] == ["late.io"])
        await bench.idle()

    bench = work(scenario)

    assert bench.finalized == ["a"]


def test_an_object_deleted_during_its_pass_is_nobody_s_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        async def vanish(_: Pass) -> Outcome:
            del bench.server.objects[(REPOS, "default", "a")]
            return Outcome(message="fine", requeue_after=1)

        bench.script = vanish
        bench.put()
        await bench.until(lambda: bench.passes)
        await bench.idle()

    with caplog.at_level(logging.WARNING):
        bench = work(scenario)

    assert not bench.events
    assert not caplog.records


def test_progress_shows_at_once_and_costs_one_patch() -> None:
    shown: list[Any] = []

    async def scenario(bench: Bench) -> None:
        async def script(rec: Pass) -> Outcome:
            rec.status({"sourceVerificationMode": "HEAD"})
            for step in ("one", "two", "three"):
                await rec.progress(step)
                shown.append((bench.condition("Ready"), bench.status.get("sourceVerificationMode")))
            return Outcome(message="fine")

        bench.script = script
        bench.put()
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "True")

    bench = work(scenario)

    assert shown == [(("Unknown", "Progressing", "one"), "HEAD")] * 3
    assert bench.status_writes == 2
    assert bench.condition("Reconciling") is None


def test_quick_work_costs_no_patch_of_its_own() -> None:
    async def scenario(bench: Bench) -> None:
        async def script(rec: Pass) -> Outcome:
            done = await rec.during(asyncio.sleep(0.5, "done"), "at work")
            return Outcome(message=done)

        bench.script = script
        bench.put()
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "True")

    bench = work(scenario)

    assert bench.status_writes == 1
    assert bench.condition("Ready") == ("True", "Succeeded", "done")
    assert bench.condition("Reconciling") is None


def test_work_that_takes_longer_shows_and_goes_on_if_that_fails() -> None:
    shown: list[Any] = []

    async def scenario(bench: Bench) -> None:
        async def work_(rec: Pass) -> str:
            await asyncio.sleep(30)
            shown.append(bench.condition("Ready"))
            return rec.obj.metadata.name

        async def script(rec: Pass) -> Outcome:
            return Outcome(message=await rec.during(work_(rec), "at work"))

        bench.script = script
        bench.put("a")
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "True")
        bench.put("b")
        await bench.until(lambda: len(bench.passes) == 2)
        # Nobody can be told of the work any more; it is not cut off.
        del bench.server.objects[(REPOS, "default", "b")]
        await bench.until(lambda: len(shown) == 2)

    work(scenario)

    assert shown[0] == ("Unknown", "Progressing", "at work")


def test_work_ends_with_the_pass_that_is_cancelled() -> None:
    ended: list[str] = []

    async def scenario(bench: Bench) -> None:
        async def work_() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(1)  # it writes down how it ended
                ended.append("work")

        async def script(rec: Pass) -> Outcome:
            try:
                await rec.during(work_(), "at work")
            finally:
                ended.append("pass")
            raise AssertionError

        bench.script = script
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

    work(scenario, grace=0.0)

    assert ended == ["work", "pass"]


def test_status_fields_are_written_even_when_the_pass_fails() -> None:
    async def script(rec: Pass) -> Outcome:
        rec.status({"observedIgnore": "*.md"})
        rec.mark("FetchFailed", "True", "Timeout", "too slow")
        raise TransientError("too slow", reason="Timeout")

    async def scenario(bench: Bench) -> None:
        bench.script = script
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

    bench = work(scenario)

    assert bench.status["observedIgnore"] == "*.md"
    assert bench.condition("FetchFailed") == ("True", "Timeout", "too slow")


def test_a_field_set_to_none_is_removed() -> None:
    async def setting(rec: Pass) -> Outcome:
        rec.status({"observedIgnore": "*.md"})
        return Outcome(message="fine")

    async def removing(rec: Pass) -> Outcome:
        rec.status({"observedIgnore": None})
        return Outcome(message="fine")

    async def scenario(bench: Bench) -> None:
        bench.script = setting
        bench.put()
        await bench.until(lambda: bench.status.get("observedIgnore"))
        bench.script = removing
        bench.controller.enqueue(KEY, "source")
        await bench.until(lambda: "observedIgnore" not in bench.status)

    work(scenario)


def test_an_object_that_goes_on_progressing_is_not_acknowledged_yet() -> None:
    async def script(_: Pass) -> Outcome:
        return Outcome(message="checking health", reason="Progressing", ready="Unknown")

    async def scenario(bench: Bench) -> None:
        bench.script = script
        bench.put(annotations={REQUESTED_AT: "now"})
        await bench.until(lambda: bench.condition("Ready"))
        assert bench.condition("Ready") == ("Unknown", "Progressing", "checking health")
        assert bench.condition("Reconciling") == ("True", "Progressing", "checking health")
        assert "lastHandledReconcileAt" not in bench.status
        assert bench.status.get("observedGeneration", -1) == -1
        bench.script = succeed
        bench.controller.enqueue(KEY, "health")
        await bench.until(lambda: "lastHandledReconcileAt" in bench.status)

    bench = work(scenario)

    assert bench.passes == [{"spec", "requested"}, {"health"}]


def test_a_pass_never_works_on_a_state_older_than_its_own_last_write() -> None:
    seen: list[str | None] = []

    async def script(rec: Pass) -> Outcome:
        seen.append(rec.obj.status.observed_ignore)
        rec.status({"observedIgnore": f"pass {len(seen)}"})
        return Outcome(message=f"pass {len(seen)}")

    async def scenario(bench: Bench) -> None:
        bench.script = script
        bench.put()
        await bench.until(lambda: len(seen) == 1)
        bench.server.deaf = True
        bench.controller.enqueue(KEY, "source")
        await bench.until(lambda: len(seen) == 2)
        bench.controller.enqueue(KEY, "source")
        await bench.until(lambda: len(seen) == 3)
        await bench.idle()

    work(scenario)

    assert seen == [None, "pass 1", "pass 2"]


def test_a_spec_change_during_a_pass_gets_its_own_pass() -> None:
    async def scenario(bench: Bench) -> None:
        async def script(_: Pass) -> Outcome:
            if len(bench.passes) == 1:
                bench.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(generation=2))
                await asyncio.sleep(1)
            return Outcome(message="fine")

        bench.script = script
        bench.put()
        await bench.until(lambda: bench.status.get("observedGeneration") == 2)
        await bench.idle()

    bench = work(scenario)

    assert bench.passes == [{"spec"}, {"spec"}]


def test_a_pass_keeps_the_spec_that_it_began_with() -> None:
    observed: list[tuple[int, str, Any]] = []

    async def scenario(bench: Bench) -> None:
        async def script(rec: Pass) -> Outcome:
            if len(bench.passes) == 1:
                newer = {"spec": {**SPEC, "url": "https://example.com/other"}}
                bench.server.edit(REPOS, "a", lambda obj: obj.update(newer))
                bench.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(generation=2))
                await rec.progress("going on")
            observed.append(
                (rec.obj.metadata.generation, rec.obj.spec.url, bench.status["observedGeneration"])
            )
            return Outcome(message="fine")

        bench.server.put(REPOS, "a", spec=dict(SPEC), status={"observedGeneration": -1})
        bench.script = script
        await bench.until(lambda: bench.status["observedGeneration"] == 2)
        await bench.idle()

    work(scenario)

    assert observed == [(1, "https://example.com/a", -1), (2, "https://example.com/other", 1)]


def test_a_status_that_cannot_be_written_is_held_on_to_through_an_outage() -> None:
    async def scenario(bench: Bench) -> None:
        bench.server.fail("PUT", "/status", 503, times=1)
        bench.server.fail("PATCH", "/status", 503, times=3)
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        await bench.idle()

    bench = work(scenario)

    assert bench.passes == [{"spec"}]
    assert bench.status_writes == 5


def test_a_status_that_is_refused_is_retried_by_another_pass() -> None:
    async def scenario(bench: Bench) -> None:
        bench.fail_status(422, times=2, reason="Invalid")
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

    assert work(scenario).passes == [{"spec"}, {"retry"}, {"retry"}]


def test_a_status_is_put_whole_and_patched_where_a_role_allows_no_more() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        put = (bench.server.count("PUT", "/status"), bench.server.count("PATCH", "/status"))
        assert put == (1, 0)
        bench.server.fail("PUT", "/status", 403, times=1)
        for number in (2, 3):
            change = functools.partial(dict.update, generation=number)
            bench.server.edit(REPOS, "a", lambda obj, change=change: change(obj["metadata"]))
            await bench.until(lambda n=number: bench.status["observedGeneration"] == n)
            await bench.idle()

    bench = work(scenario)

    assert (bench.server.count("PUT", "/status"), bench.server.count("PATCH", "/status")) == (2, 2)


def test_a_status_that_meets_a_newer_version_leaves_that_as_it_is() -> None:
    async def script(rec: Pass) -> Outcome:
        bench_.server.edit(REPOS, "a", lambda obj: obj["metadata"].update(labels={"by": "user"}))
        rec.status({"observedInclude": []})
        return await succeed(rec)

    bench_: Bench

    async def scenario(bench: Bench) -> None:
        nonlocal bench_
        bench_ = bench
        bench.script = script
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

    bench = work(scenario)

    (stored,) = bench.server.objects.values()
    assert stored["metadata"]["labels"] == {"by": "user"}
    assert bench.server.count("PATCH", "/status") == 1


def test_retry_interval_replaces_the_back_off() -> None:
    async def main() -> Bench:
        server = FakeApiServer()
        async with server.running() as client:
            bench = Bench(server, client)
            bench.controller = Controller(
                kind=crds.GIT_REPOSITORY,
                client=client,
                reconcile=bench._reconcile,
                finalize=bench._finalize,
                options=ControllerOptions(),
                recorder=bench,
                field_manager="gotk-source-controller",
                retry_interval=lambda _: 7.0,
            )
            bench.script = raising(TransientError("no route"))
            bench.put()
            watching = asyncio.create_task(bench.controller.informer.run())
            running = asyncio.create_task(bench.controller.run())
            await bench.until(lambda: len(bench.passes) == 4)
            await bench.controller.stop()
            watching.cancel()
            await asyncio.wait([watching, running])
        return bench

    bench = virtualtime.run(main)

    assert bench.times[3] - bench.times[2] == pytest.approx(7, abs=0.5)


def test_stop_lets_running_passes_finish_and_takes_nothing_new() -> None:
    async def slow(_: Pass) -> Outcome:
        await asyncio.sleep(10)
        return Outcome(message="finished")

    async def scenario(bench: Bench) -> None:
        bench.script = slow
        for name in ("a", "b", "c"):
            bench.put(name)
        await bench.until(lambda: len(bench.passes) == 2)
        await bench.controller.stop()

    bench = work(scenario)

    assert len(bench.passes) == 2
    assert bench.condition("Ready") == ("True", "Succeeded", "finished")


def test_stop_cancels_passes_after_the_grace_and_they_write_nothing() -> None:
    async def endless(_: Pass) -> Outcome:
        await asyncio.sleep(1e9)
        raise AssertionError

    async def scenario(bench: Bench) -> None:
        bench.script = endless
        bench.put()
        await bench.until(lambda: bench.passes)
        await bench.controller.stop()
        assert asyncio.get_running_loop().time() < 40

    bench = work(scenario, grace=30.0)

    assert bench.condition("Ready") is None


def test_enqueue_ignores_unknown_objects() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.controller.informer.wait_synced()
        bench.controller.enqueue(ObjectKey("default", "nobody"), "source")
        await bench.idle()

    assert not work(scenario).passes


def test_series_of_an_object_follow_its_life() -> None:
    labels = {"kind": "GitRepository", "name": "a", "namespace": "default"}

    def sample(name: str, **more: str) -> float | None:
        return prometheus_client.REGISTRY.get_sample_value(name, labels | more)

    async def scenario(bench: Bench) -> None:
        bench.script = raising(TransientError("no route"))
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        await bench.idle()
        assert sample("gotk_reconcile_condition", type="Ready", status="False") == 1
        assert (sample("gotk_reconcile_error_total") or 0) >= 1
        bench.script = succeed
        await bench.until(lambda: (bench.condition("Ready") or ("",))[0] == "True")
        await bench.idle()
        assert sample("gotk_reconcile_condition", type="Ready", status="True") == 1
        assert sample("gotk_reconcile_condition", type="Ready", status="False") == 0
        assert sample("gotk_suspend_status") == 0
        assert (sample("gotk_reconcile_duration_seconds_count") or 0) >= 2
        bench.server.remove(REPOS, "a")
        await bench.until(lambda: not bench.server.objects)
        await bench.idle()

    work(scenario)

    assert sample("gotk_suspend_status") is None
    assert sample("gotk_reconcile_duration_seconds_count") is None
    assert sample("gotk_reconcile_error_total") is None


def test_log_lines_carry_flux_s_keys(caplog: pytest.LogCaptureFixture) -> None:
    async def script(rec: Pass) -> Outcome:
        rec.revision = "main@sha1:abc"
        return Outcome(message="fine", requeue_after=600)

    async def scenario(bench: Bench) -> None:
        bench.script = script
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        await bench.idle()

    with caplog.at_level(logging.INFO):
        bench = work(scenario)

    record = next(r for r in caplog.records if "Reconciliation finished" in r.getMessage())
    fields = record.__dict__["fields"]
    assert record.getMessage().endswith(", next run in 10m0s")
    assert fields["controller"] == "gitrepository"
    assert fields["controllerGroup"] == "source.toolkit.fluxcd.io"
    assert fields["controllerKind"] == "GitRepository"
    assert fields["GitRepository"] == {"name": "a", "namespace": "default"}
    assert (fields["name"], fields["namespace"]) == ("a", "default")
    assert fields["revision"] == "main@sha1:abc"
    assert fields["reconcileID"]
    assert bench.events[0].metadata == {"revision": "main@sha1:abc"}


def test_passes_that_hang_hold_up_their_own_namespace_only() -> None:
    async def hang(rec: Pass) -> Outcome:
        if rec.key.namespace == "slow":
            await asyncio.Event().wait()
        return await succeed(rec)

    async def scenario(bench: Bench) -> None:
        bench.script = hang
        for name in ("a", "b", "c"):
            bench.server.put(REPOS, name, namespace="slow", spec=dict(SPEC))
        await bench.until(lambda: len(bench.passes) == 2)
        bench.server.put(REPOS, "quick", namespace="other", spec=dict(SPEC))
        await bench.until(lambda: bench.server.objects[REPOS, "other", "quick"].get("status"))

    assert len(work(scenario, concurrent=2).passes) == 3


def test_a_file_name_that_is_no_text_can_be_told() -> None:
    async def fail(_: Pass) -> Outcome:
        raise TransientError("cannot read 'na\udcffme'")

    async def scenario(bench: Bench) -> None:
        bench.script = fail
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))

    bench = work(scenario)

    assert bench.condition("Ready") == ("False", "Failed", r"cannot read 'na\udcffme'")
    assert bench.events[0].message == r"cannot read 'na\udcffme'"
