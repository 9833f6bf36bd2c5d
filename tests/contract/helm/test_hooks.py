"""Hooks and tests: they run to their end, fail the action, and go by their policies."""

import asyncio
import json

import pytest

from tests.contract.helm.world import World, hook, statuses
from tests.tools.waiting import until
from toolkit.helm.actions import Outcome
from toolkit.native.calls import EngineError

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_hooks_run_around_an_action(world: World) -> None:
    chart = world.chart(
        templates__a_yaml=hook("before", "pre-install"),
        templates__b_yaml=hook("after", "post-install", policy="hook-succeeded"),
        templates__c_yaml=hook("unused", "pre-upgrade"),
    )

    installed = await world.run("install", chart)

    assert world.config_map("before")
    assert world.config_map("after") is None
    assert world.config_map("unused") is None
    assert [each["metadata"]["name"] for each in installed.objects] == ["app"]
    phases = {
        each.name: each.last_run.phase for each in installed.records[0].hooks if each.last_run
    }
    assert phases == {"before": "Succeeded", "after": "Succeeded", "unused": ""}


async def test_action_waits_for_its_hooks(world: World) -> None:
    chart = world.chart(templates__a_yaml=hook("wait", "pre-install", kind="Pod"))
    installing = asyncio.create_task(world.run("install", chart))

    await world.ends("wait", "Succeeded")

    assert statuses(await installing) == [(1, "deployed")]
    assert world.colour() == "red"


async def test_failing_hook_fails_the_action(world: World) -> None:
    chart = world.chart(
        templates__a_yaml=hook("wait", "pre-install", policy="hook-failed", kind="Pod")
    )
    installing = asyncio.create_task(world.fails("install", chart))

    await world.ends("wait", "Failed")

    error = await installing
    assert error.code == "HookFailed"
    assert statuses(error.outcome) == [(1, "failed")]
    assert world.config_map() is None
    assert await world.history() == [(1, "failed")]


async def test_hooks_are_left_out_if_disabled(world: World) -> None:
    chart = world.chart(templates__a_yaml=hook("before", "pre-install"))

    await world.run("install", chart, disableHooks=True)

    assert world.config_map("before") is None


async def test_failing_rollback_hook_leaves_no_pending_release(world: World) -> None:
    chart = world.chart(templates__a_yaml=hook("wait", "pre-rollback", kind="Pod"))
    await world.run("install", chart)
    await world.run("upgrade", chart)
    rolling = asyncio.create_task(world.fails("rollback", version=1))

    await world.ends("wait", "Failed")

    assert statuses((await rolling).outcome)[0] == (3, "failed")
    assert (await world.history())[0] == (3, "failed")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_tests_are_told_by_their_phase(world: World, phase: str) -> None:
    tests = {
        "templates__a_yaml": hook("check", "test", kind="Pod"),
        "templates__b_yaml": hook("other", "test", kind="Pod"),
    }
    await world.run("install", world.chart(**tests))
    testing = asyncio.create_task(_tested(world))

    await world.ends("check", phase)

    tested = await testing
    phases = {each.name: each.last_run.phase for each in tested.records[0].hooks if each.last_run}
    assert phases == {"check": phase, "other": ""}
    assert world.get("api/v1 pods/other") is None


async def _tested(world: World) -> Outcome:
    try:
        return await world.run("test", filters={"!name": ["other"]})
    except EngineError as error:
        outcome: Outcome = error.outcome
        return outcome


async def test_jobs_that_are_deleted_as_soon_as_they_are_complete_have_succeeded(
    world: World,
) -> None:
    job = json.loads(hook("", "pre-install", kind="Job"))
    job["spec"]["ttlSecondsAfterFinished"] = 0
    hooks = {
        f"templates__{number}_yaml": json.dumps(
            job | {"metadata": {**job["metadata"], "name": f"job-{number}"}}
        )
        for number in range(6)
    }

    installed = await world.run("install", world.chart(**hooks))

    phases = {each.last_run.phase for each in installed.records[0].hooks if each.last_run}
    assert phases == {"Succeeded"}


async def test_hook_that_somebody_deletes_fails_the_action(world: World) -> None:
    chart = world.chart(templates__a_yaml=hook("wait", "pre-install", kind="Pod"))
    installing = asyncio.create_task(world.fails("install", chart))
    await until(lambda: world.get("api/v1 pods/wait") is not None)

    where = f"/api/v1/namespaces/{world.namespace}/pods/wait"
    world.administrator.send("DELETE", where, body={"gracePeriodSeconds": 0})

    error = await installing
    assert error.code == "HookFailed"
    assert "not ready. status: NotFound, message: it was deleted before it ended" in str(error)


async def test_hook_that_does_not_end_in_time_is_told(world: World) -> None:
    chart = world.chart(templates__a_yaml=hook("wait", "pre-install", kind="Pod"))

    error = await world.fails("install", chart, timeout=2)

    assert error.code == "Timeout"
    assert f"resource Pod/{world.namespace}/wait not ready. status: InProgress" in str(error)
