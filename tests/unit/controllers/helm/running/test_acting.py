"""Actions on a release that is not there, and actions that do not come to an end."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from controllers.helm.deciding.decisions import Action
from controllers.helm.running.acting import ActionError, Actor
from controllers.helm.running.engine import Engine
from controllers.helm.running.work import Work
from tests.fakes.helmworld import World
from toolkit.errors import PenstockError, TransientError
from toolkit.helm.actions import Order, Release
from toolkit.helm.actions import Outcome as Done
from toolkit.kube.reconciliation import Outcome


class Caught:
    """A releaser that does nothing with what a pass brings to it."""

    async def release(self, work: Work) -> Outcome:
        self.work = work
        return Outcome(message="caught")


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def _acted(
    world: World, action: Action, *, done: Done | None = None, error: PenstockError | None = None
) -> Work:
    """Run an action that the engine answers like this, on a release without history."""
    caught: Any = Caught()
    world.reconciler = dataclasses.replace(world.reconciler, releaser=caught)
    await world.run("spec")

    async def run(_: Release, __: Order) -> Done:
        if error is not None:
            raise error
        return done or Done()

    work: Work = caught.work
    await Actor(engine=Engine(run=run, records=world.records)).act(work, action, ())
    return work


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (Action.TEST, "the release has disappeared"),
        (Action.UNLOCK, "the release has disappeared"),
        (Action.ROLLBACK, "there is no release to roll back to"),
    ],
)
async def test_release_that_has_disappeared_ends_the_pass(
    world: World, action: Action, why: str
) -> None:
    with pytest.raises(ActionError, match=why):
        await _acted(world, action)


async def test_action_that_no_worker_could_run_ends_the_pass(world: World) -> None:
    closed = TransientError("the pool is closed")

    with pytest.raises(TransientError, match="the pool is closed"):
        await _acted(world, Action.TEST, error=closed)
