"""Waits that no worker waits for."""

import pytest

from toolkit.apply.health import NOT_FOUND, Health, Status
from toolkit.apply.wait import Waits
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef

OWNER = ObjectKey("shop", "app")
CURRENT, WORKING = Health(Status.CURRENT), Health(Status.IN_PROGRESS, "Ready: 0/1")
BROKEN = Health(Status.FAILED, "deadline")


def _ref(name: str, kind: str = "Deployment") -> ObjectRef:
    return ObjectRef(GroupVersionKind("apps", "v1", kind), "shop", name)


A, B = _ref("a"), _ref("b")


class World:
    """Waits over healths and a time that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.healths: dict[ObjectRef, Health | None] = {}
        self.told: list[ObjectKey] = []
        self.waits = Waits(self, self.told.append, monotonic=lambda: self.now)

    def health(self, owner: ObjectKey, ref: ObjectRef) -> Health | None:
        assert owner == OWNER
        return self.healths.get(ref)

    def becomes(self, ref: ObjectRef, health: Health) -> None:
        self.healths[ref] = health
        self.waits.changed(OWNER, ref)

    def state(self) -> str:
        verdict = self.waits.verdict(OWNER)
        return verdict.state if verdict else ""


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_healthy_already_needs_no_wait(world: World) -> None:
    world.healths = {A: CURRENT}

    verdict = world.waits.begin(OWNER, [A], timeout=60)

    assert (verdict.state, verdict.pending, world.told) == ("healthy", (), [])


def test_nothing_to_wait_for_is_healthy(world: World) -> None:
    assert world.waits.begin(OWNER, [], timeout=60).state == "healthy"


def test_the_last_object_ends_the_wait(world: World) -> None:
    world.waits.begin(OWNER, [A, B], timeout=60)

    world.becomes(A, CURRENT)
    half = (world.state(), list(world.told))
    world.now = 7.0
    world.becomes(B, CURRENT)

    assert half == ("waiting", [])
    assert (world.state(), world.told) == ("healthy", [OWNER])
    verdict = world.waits.verdict(OWNER)
    assert verdict
    assert verdict.seconds == 7.0


def test_what_becomes_observable_without_a_change_is_looked_at_again(world: World) -> None:
    world.waits.begin(OWNER, [A, B], timeout=60)
    world.becomes(A, CURRENT)

    world.healths[B] = CURRENT  # its watch has caught up, and its health is as before
    world.waits.tick()

    assert (world.state(), world.told) == ("healthy", [OWNER])


def test_an_object_may_fall_back_while_others_are_waited_for(world: World) -> None:
    world.waits.begin(OWNER, [A, B], timeout=60)
    world.becomes(A, CURRENT)

    world.becomes(A, WORKING)
    world.becomes(B, CURRENT)

    assert world.state() == "waiting"


def test_a_failed_object_ends_the_wait_at_once(world: World) -> None:
    world.waits.begin(OWNER, [A, B], timeout=60)

    world.becomes(A, BROKEN)

    assert (world.state(), world.told) == ("failed", [OWNER])


def test_without_fail_fast_the_others_are_waited_for(world: World) -> None:
    world.waits.begin(OWNER, [A, B], timeout=60, fail_fast=False)

    world.becomes(A, BROKEN)
    half = world.state()
    world.becomes(B, CURRENT)

    assert (half, world.state()) == ("waiting", "failed")


def test_the_deadline_ends_the_wait(world: World) -> None:
    world.waits.begin(OWNER, [A], timeout=60)
    world.becomes(A, WORKING)

    world.now = 59.9
    world.waits.tick()
    before = world.state()
    world.now = 60.0
    world.waits.tick()
    world.waits.tick()

    assert (before, world.state(), world.told) == ("waiting", "timeout", [OWNER])
    assert str(world.waits.verdict(OWNER)) == ("Deployment/shop/a status: 'InProgress': Ready: 0/1")


def test_a_verdict_is_final(world: World) -> None:
    world.healths = {A: CURRENT}
    world.waits.begin(OWNER, [A], timeout=60)

    world.becomes(A, BROKEN)
    world.now = 100.0
    world.waits.tick()

    assert (world.state(), world.told) == ("healthy", [])


def test_a_new_wait_replaces_the_earlier_one(world: World) -> None:
    world.waits.begin(OWNER, [A], timeout=10)
    world.waits.begin(OWNER, [B], timeout=60)

    world.now = 10.0
    world.waits.tick()
    world.becomes(A, BROKEN)
    between = world.state()
    world.becomes(B, CURRENT)

    assert (between, world.state()) == ("waiting", "healthy")


def test_a_cancelled_wait_is_silent(world: World) -> None:
    world.waits.begin(OWNER, [A], timeout=10)

    world.waits.cancel(OWNER)
    world.becomes(A, CURRENT)
    world.now = 10.0
    world.waits.tick()

    assert world.told == []
    assert world.waits.verdict(OWNER) is None


def test_an_object_that_is_gone_keeps_waiting(world: World) -> None:
    world.waits.begin(OWNER, [A], timeout=60)

    world.becomes(A, NOT_FOUND)

    assert world.state() == "waiting"


def test_a_job_that_deletes_itself_is_done(world: World) -> None:
    job = _ref("job", "Job")
    world.waits.begin(OWNER, [job], timeout=60, may_vanish={job.identity})

    world.becomes(job, NOT_FOUND)

    assert world.state() == "healthy"


def test_what_was_never_seen_is_waited_for(world: World) -> None:
    verdict = world.waits.begin(OWNER, [A], timeout=60)

    assert verdict.state == "waiting"
    assert str(verdict) == "Deployment/shop/a status: 'Unknown': not observed yet"


def test_a_long_list_is_cut(world: World) -> None:
    verdict = world.waits.begin(OWNER, [_ref(f"{n:02}") for n in range(30)], timeout=60)

    assert str(verdict).endswith("and 20 more")
    assert len(verdict.pending) == 30
