"""Storage is read again after somebody else has written there, and not after we have."""

import pytest

from controllers.helm.running.freshness import Freshness
from controllers.helm.running.records import Place, Records, version_of
from toolkit.kube.informer import Change
from toolkit.objects import Json, ObjectKey

OWNER = ObjectKey("team", "app")
PLACE = Place("team", "app")
PATH = "/api/v1/namespaces/team/secrets"


class World:
    """Records that one owner follows, and who is woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.shown = 8
        self.records = Records(
            lambda key, trigger: self.woken.append(f"{key} {trigger}"),
            Freshness(lambda: self.shown),
        )
        self.records.follow(OWNER, PLACE)

    def reads(self, **versions: str) -> None:
        """Have an action list the records."""
        with self.records.acting(OWNER) as seen:
            seen("GET", PATH, {"items": [self.record(n, v) for n, v in versions.items()]})

    def writes(self, method: str, name: str, version: str = "") -> None:
        """Have an action write a record, or delete it."""
        answer = self.record(name, version) if version else {"kind": "Status"}
        with self.records.acting(OWNER) as seen:
            seen(method, f"{PATH}/{self.named(name)}" if method != "POST" else PATH, answer)

    @property
    def since(self) -> int:
        """Return the resourceVersion that a list of the records must have reached."""
        return self.records.since(PLACE)

    def shows(self, name: str, old: str | None, new: str | None) -> None:
        """Have the watch show a change of a record."""
        key = ObjectKey("team", self.named(name))
        self.records.changed(Change("DELETED" if new is None else "MODIFIED", key, old, new))

    def record(self, name: str, version: str) -> Json:
        return {"metadata": {"name": self.named(name), "resourceVersion": version}}

    def named(self, name: str) -> str:
        return f"sh.helm.release.v1.app.{name}"


def test_nothing_is_known_before_storage_was_read() -> None:
    world = World()

    assert not world.records.current(OWNER)


def test_what_was_read_is_no_news() -> None:
    world = World()

    world.reads(v1="10", v2="12")
    world.shows("v1", None, "10")
    world.shows("v2", "11", "12")
    world.shows("v2", None, "9")

    assert world.records.current(OWNER)
    assert world.woken == []


def test_a_write_by_somebody_else_wakes_the_release() -> None:
    world = World()
    world.reads(v1="10")

    world.shows("v1", "10", "11")

    assert not world.records.current(OWNER)
    assert world.woken == ["team/app storage"]


def test_a_new_record_by_somebody_else_wakes_the_release() -> None:
    world = World()
    world.reads(v1="10")

    world.shows("v2", None, "11")

    assert world.woken == ["team/app storage"]


def test_a_deleted_record_wakes_the_release_once() -> None:
    world = World()
    world.reads(v1="10")

    world.shows("v1", "10", None)
    world.shows("v1", "10", None)

    assert world.woken == ["team/app storage"]


def test_the_watch_may_show_our_write_before_its_answer_has_come() -> None:
    world = World()
    world.reads()

    with world.records.acting(OWNER) as seen:
        world.shows("v1", None, "20")
        world.shows("v1", "20", "21")
        seen("POST", PATH, world.record("v1", "20"))
        seen("PUT", f"{PATH}/{world.named('v1')}", world.record("v1", "21"))

    assert world.records.current(OWNER)
    assert world.woken == []


def test_a_write_by_somebody_else_during_an_action_is_noticed() -> None:
    world = World()
    world.reads()

    with world.records.acting(OWNER) as seen:
        seen("POST", PATH, world.record("v1", "20"))
        world.shows("v1", "20", "22")

    assert not world.records.current(OWNER)
    assert world.woken == ["team/app storage"]


def test_what_we_deleted_is_no_news() -> None:
    world = World()
    world.reads(v1="10", v2="11")

    with world.records.acting(OWNER) as seen:
        seen("DELETE", f"{PATH}/{world.named('v1')}", {"kind": "Status"})
    world.shows("v1", "10", None)

    assert world.records.current(OWNER)
    assert world.woken == []


def test_an_action_that_failed_leaves_storage_unknown() -> None:
    world = World()
    world.reads(v1="10")

    with pytest.raises(ZeroDivisionError), world.records.acting(OWNER):
        _ = 1 / 0

    assert not world.records.current(OWNER)


def test_another_place_is_unknown() -> None:
    world = World()
    world.reads(v1="10")

    world.records.follow(OWNER, Place("other", "app"))
    world.shows("v1", "10", "11")

    assert not world.records.current(OWNER)
    assert world.woken == []


def test_the_watch_tells_whether_a_release_exists() -> None:
    world = World()

    assert world.records.empty(PLACE)
    world.shows("v1", None, "10")
    assert not world.records.empty(PLACE)
    world.shows("v1", "10", None)
    assert world.records.empty(PLACE)


def test_only_the_version_of_a_record_is_kept() -> None:
    assert version_of(b'{"metadata": {"name": "x", "resourceVersion": "7"}, "data": {}}') == "7"


def test_a_list_must_show_what_the_watch_has_shown() -> None:
    world = World()

    assert world.since == 8


def test_a_list_is_the_newest_while_nothing_is_known_of_the_watch() -> None:
    world = World()
    world.writes("POST", "v1", "10")

    world.shown = 0

    assert world.since == 0


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_list_must_show_what_was_written(method: str) -> None:
    world = World()

    world.writes(method, "v1", "10")

    assert world.since == 10
    assert world.records.since(Place("other", "app")) == 10


def test_a_list_is_the_newest_until_the_watch_shows_a_deletion() -> None:
    world = World()
    world.shows("v1", None, "5")

    world.writes("DELETE", "v1")

    assert (world.since, world.records.since(Place("other", "app"))) == (0, 8)
    world.shows("v1", "5", None)
    assert world.since == 8


def test_a_list_is_the_newest_after_a_deletion_of_what_the_watch_has_not_shown() -> None:
    world = World()
    world.writes("POST", "v1", "10")

    world.writes("DELETE", "v1")

    assert world.since == 0


def test_a_deletion_that_the_watch_has_shown_before_its_answer_is_over() -> None:
    world = World()
    world.shows("v1", None, "5")

    with world.records.acting(OWNER) as seen:
        world.shows("v1", "5", None)
        seen("DELETE", f"{PATH}/{world.named('v1')}", {"kind": "Status"})

    assert world.since == 8


def test_a_deleted_record_that_is_written_again_is_expected_again() -> None:
    world = World()
    world.shows("v1", None, "5")
    world.writes("DELETE", "v1")

    world.writes("POST", "v1", "12")

    assert world.since == 12


def test_what_an_owner_deleted_is_known_after_it_is_forgotten() -> None:
    world = World()
    world.shows("v1", None, "5")
    world.writes("DELETE", "v1")

    world.records.forget(OWNER)

    assert world.since == 0
