"""When a change is drift, and when it is told."""

from dataclasses import replace
from typing import Any

import pytest

from toolkit.apply.changes import Known
from toolkit.apply.drift import DriftWatch
from toolkit.apply.fields import Writer
from toolkit.apply.health import Health, Status
from toolkit.apply.projection import Live
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef

OWNER, OTHER = ObjectKey("shop", "app"), ObjectKey("shop", "other")
REF = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), "shop", "conf")
KNOWN = Known(ref=REF, payload_digest="p", entry_digest="ours", uid="u", resource_version="10")
LIVE = Live(
    uid="u",
    resource_version="10",
    entry="ours",
    writers=(),
    owner=OWNER,
    health=Health(Status.CURRENT),
    rule="",
)
DRIFTED = replace(LIVE, resource_version="11", entry="theirs")


class World:
    """A drift watch over a view that the test sets, at a time that it sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.objects: dict[ObjectRef, Live] = {}
        self.synced = True
        self.told: list[tuple[ObjectKey, tuple[str, ...], bool]] = []
        self.claimed: list[ObjectKey] = []
        self.watch = DriftWatch(
            self, self._on_drift, on_claim=self.claimed.append, monotonic=lambda: self.now
        )

    def find(self, ref: ObjectRef) -> Live | None:
        return self.objects.get(ref)

    def current(self, ref: ObjectRef) -> bool:
        del ref
        return self.synced

    def show(self, live: Live | None) -> None:
        """Let an event arrive."""
        old = self.objects.pop(REF, None)
        if live:
            self.objects[REF] = live
        self.watch.seen(REF, live, old)

    def applied(self, known: Known = KNOWN, **kwargs: Any) -> None:
        self.watch.expect(OWNER, {REF.identity: known}, **kwargs)

    def _on_drift(
        self, owner: ObjectKey, ref: ObjectRef, *, managers: tuple[str, ...], deleted: bool
    ) -> None:
        assert ref == REF
        self.told.append((owner, managers, deleted))


@pytest.fixture
def world() -> World:
    made = World()
    made.applied()
    made.show(LIVE)
    return made


def test_an_untouched_object_is_known_at_its_present_version(world: World) -> None:
    world.show(replace(LIVE, resource_version="12"))

    assert world.told == []
    assert world.watch.known(OWNER) == {REF.identity: replace(KNOWN, resource_version="12")}


def test_an_object_that_shows_our_stamp_is_untouched(world: World) -> None:
    world.show(replace(LIVE, resource_version="12"))

    assert world.watch.untouched(OWNER) == {REF.identity}


@pytest.mark.parametrize(
    ("known", "live"),
    [
        (KNOWN, replace(LIVE, stamp="later")),
        (KNOWN, replace(LIVE, resource_version="9")),
        (KNOWN, replace(LIVE, owner=OTHER)),
        (KNOWN, DRIFTED),
        (KNOWN, None),
        (replace(KNOWN, entry_digest=""), replace(LIVE, entry="")),
    ],
    ids=["applied in our name", "not yet seen", "claimed", "drifted", "gone", "never applied"],
)
def test_what_the_watch_does_not_prove_may_be_touched(
    world: World, known: Known, live: Live | None
) -> None:
    world.applied(known)
    world.show(live)

    assert world.watch.untouched(OWNER) == frozenset()


def test_a_watch_that_is_behind_proves_nothing(world: World) -> None:
    world.synced = False

    assert world.watch.untouched(OWNER) == frozenset()


@pytest.mark.parametrize(
    "live",
    [DRIFTED, replace(LIVE, resource_version="11", entry=""), replace(DRIFTED, uid="another")],
    ids=["entry changed", "entry vanished", "made anew"],
)
def test_a_changed_object_is_told_once(world: World, live: Live) -> None:
    world.show(live)
    world.show(replace(live, resource_version="12"))

    assert [(owner, deleted) for owner, _, deleted in world.told] == [(OWNER, False)]
    assert world.watch.known(OWNER) == {}


def test_a_deleted_object_is_told(world: World) -> None:
    world.show(None)

    assert world.told == [(OWNER, (), True)]


def test_the_managers_who_changed_it_are_named(world: World) -> None:
    world.show(replace(LIVE, writers=(Writer("old", "Update", "1"),)))

    world.show(
        replace(DRIFTED, writers=(Writer("old", "Update", "1"), Writer("intruder", "Update", "2")))
    )

    assert world.told == [(OWNER, ("intruder",), False)]


def test_the_event_of_our_own_write_is_no_drift(world: World) -> None:
    world.watch.hold(OWNER, ())
    ours = replace(LIVE, resource_version="11", entry="new")
    world.show(ours)

    world.applied(replace(KNOWN, entry_digest="new", resource_version="11"))

    assert world.told == []
    assert world.watch.known(OWNER).keys() == {REF.identity}


def test_what_is_only_created_drifts_by_its_deletion_alone(world: World) -> None:
    world.show(LIVE)
    world.applied(replace(KNOWN, yielded=True))

    world.show(DRIFTED)
    assert world.told == []

    world.show(None)
    assert [deleted for _, _, deleted in world.told] == [True]


def test_an_event_from_before_the_apply_is_no_drift(world: World) -> None:
    world.applied(replace(KNOWN, entry_digest="new", resource_version="20"))

    world.show(replace(LIVE, resource_version="15", entry="old"))

    assert world.told == []
    assert world.watch.known(OWNER) == {}
    assert world.watch.unconfirmed(OWNER, REF)


def test_a_change_right_after_our_write_is_found_when_the_apply_ends(world: World) -> None:
    world.watch.hold(OWNER, ())
    world.show(replace(LIVE, resource_version="11", entry="new"))
    world.show(replace(LIVE, resource_version="12", entry="theirs"))

    world.applied(replace(KNOWN, entry_digest="new", resource_version="11"))

    assert world.told == [(OWNER, (), False)]


def test_the_end_of_a_recreated_objects_predecessor_is_no_drift(world: World) -> None:
    world.applied(replace(KNOWN, uid="successor", resource_version="20"))

    world.show(None)
    world.show(replace(LIVE, uid="successor", resource_version="20"))

    assert world.told == []


def test_an_object_that_never_turns_up_is_told(world: World) -> None:
    world.show(None)
    world.told.clear()
    world.applied(replace(KNOWN, uid="new", resource_version="20"))

    world.now = 4.9
    world.watch.sweep()
    early = list(world.told)
    world.now = 5.0
    world.watch.sweep()
    world.watch.sweep()

    assert (early, world.told) == ([], [(OWNER, (), True)])


def test_nothing_is_missed_as_long_as_the_watch_does_not_work(world: World) -> None:
    world.objects.clear()
    world.synced = False
    world.applied(replace(KNOWN, uid="new"))

    world.now = 100.0
    world.watch.sweep()

    assert world.told == []
    assert world.watch.known(OWNER) == {}


@pytest.mark.parametrize("last", [Status.CURRENT, Status.FAILED, Status.TERMINATING])
def test_a_job_that_deleted_itself_is_as_good_as_there(world: World, last: Status) -> None:
    world.applied(replace(KNOWN, vanishing=True))
    world.show(replace(LIVE, health=Health(last)))

    world.show(None)
    known = world.watch.known(OWNER)
    world.applied(known[REF.identity])
    world.now = 100.0
    world.watch.sweep()

    assert world.told == []
    assert known.keys() == world.watch.known(OWNER).keys() == {REF.identity}


def test_a_job_that_was_deleted_at_work_is_drift(world: World) -> None:
    world.applied(replace(KNOWN, vanishing=True))
    world.show(replace(LIVE, health=Health(Status.IN_PROGRESS)))

    world.show(None)

    assert world.told == [(OWNER, (), True)]


def test_a_job_that_vanished_before_it_was_seen_is_found_out(world: World) -> None:
    world.objects.clear()
    world.applied(replace(KNOWN, uid="new", vanishing=True))

    world.now = 5.0
    vanished = world.watch.sweep()

    assert vanished == [(OWNER, REF)]
    assert (world.told, world.watch.sweep()) == ([], [])


def test_a_job_applied_anew_is_watched_anew(world: World) -> None:
    world.applied(replace(KNOWN, vanishing=True))
    world.show(None)
    second = replace(KNOWN, uid="second", resource_version="20", vanishing=True)
    world.applied(second)
    world.show(
        replace(LIVE, uid="second", resource_version="20", health=Health(Status.IN_PROGRESS))
    )

    world.show(None)

    assert world.told == [(OWNER, (), True)]


def test_what_vanished_while_a_watch_was_replaced_is_told(world: World) -> None:
    world.objects.clear()
    world.watch.recheck(("", "ConfigMap"))

    world.now = 5.0
    world.watch.sweep()

    assert world.told == [(OWNER, (), True)]


def test_what_a_new_watch_shows_again_is_no_drift(world: World) -> None:
    world.watch.recheck(("", "ConfigMap"))
    world.show(LIVE)

    world.now = 5.0
    world.watch.sweep()

    assert world.told == []
    assert not world.watch.unconfirmed(OWNER, REF)


def test_who_insists_is_answered_later_and_named(world: World) -> None:
    world.show(DRIFTED)
    world.applied(replace(KNOWN, resource_version="12"))
    world.show(replace(LIVE, resource_version="12"))

    intruder = (Writer("intruder", "Update", "1"),)
    world.show(replace(DRIFTED, resource_version="13", writers=intruder))
    at_once = len(world.told)
    world.now = 1.0
    world.watch.sweep()

    assert (at_once, len(world.told)) == (1, 2)
    assert world.watch.rivals(OWNER) == {REF: ("intruder",)}


def test_drift_that_is_undone_by_hand_during_the_pause_is_not_told(world: World) -> None:
    world.show(DRIFTED)
    world.applied(replace(KNOWN, resource_version="12"))
    world.show(replace(DRIFTED, resource_version="13"))

    world.show(replace(LIVE, resource_version="14"))
    world.now = 10.0
    world.watch.sweep()

    assert len(world.told) == 1


def test_a_failed_apply_keeps_what_it_did_not_reach(world: World) -> None:
    second = ObjectRef(REF.gvk, "shop", "second")
    world.watch.hold(OWNER, ())

    world.watch.expect(OWNER, {second.identity: replace(KNOWN, ref=second)}, partial=True)
    world.show(DRIFTED)

    assert world.told == [(OWNER, (), False)]


def test_an_apply_that_did_not_reach_the_drift_is_not_told_of_it_again(world: World) -> None:
    world.show(DRIFTED)
    world.watch.hold(OWNER, ())

    world.watch.expect(OWNER, {}, partial=True)
    world.now = 1000.0
    world.watch.sweep()

    assert len(world.told) == 1
    assert world.watch.known(OWNER) == {}


def test_a_released_hold_judges_by_what_was_expected_before(world: World) -> None:
    world.watch.hold(OWNER, ())
    world.show(DRIFTED)
    held = list(world.told)

    world.watch.release(OWNER)

    assert (held, world.told) == ([], [(OWNER, (), False)])


def test_an_object_that_left_the_set_is_not_expected_any_more(world: World) -> None:
    world.watch.expect(OWNER, {})

    world.show(None)

    assert world.told == []


def test_two_owners_of_one_object_are_told_apart(world: World) -> None:
    world.watch.expect(OTHER, {REF.identity: replace(KNOWN, entry_digest="theirs")})
    world.told.clear()

    world.show(DRIFTED)

    assert world.told == [(OWNER, (), False)]


def test_a_forgotten_owner_is_told_nothing(world: World) -> None:
    world.watch.forget(OWNER)

    world.show(None)
    world.watch.sweep()

    assert world.told == []
    assert world.watch.owners(REF) == frozenset()


def test_another_owner_with_the_same_fields_is_named_once_and_is_no_drift(world: World) -> None:
    taken = replace(LIVE, resource_version="11", owner=OTHER)
    world.show(taken)
    world.show(replace(taken, resource_version="12"))

    claims, known = world.watch.claims(OWNER), world.watch.known(OWNER)
    world.applied(replace(KNOWN, resource_version="13"))
    world.show(replace(LIVE, resource_version="13"))

    assert (claims, known.keys()) == ({REF: OTHER}, {REF.identity})
    assert (world.told, world.claimed) == ([], [OWNER, OWNER])
    assert world.watch.claims(OWNER) == {}


def test_an_owner_that_applies_is_concerned_by_what_it_applies_alone() -> None:
    """Everybody may give objects its labels, also while it applies."""
    world = World()
    mine, elsewhere, other = (
        ObjectRef(REF.gvk, namespace, name)
        for namespace, name in (("", "new"), ("apps", "new"), ("apps", "foreign"))
    )

    world.watch.hold(OWNER, {mine.identity})

    assert world.watch.concerns(OWNER, elsewhere)
    assert not world.watch.concerns(OWNER, other)
    world.watch.release(OWNER)
    assert not world.watch.concerns(OWNER, elsewhere)
