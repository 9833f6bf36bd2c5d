"""Storage is read again after somebody else has written there, and not after we have."""

import pytest

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
        self.records = Records(lambda key, trigger: self.woken.append(f"{key} {trigger}"))
        self.records.follow(OWNER, PLACE)

    def reads(self, **versions: str) -> None:
        """Have an action list the records."""
        with self.records.acting(OWNER) as seen:
            seen("GET", PATH, {"items": [self.record(n, v) for n, v in versions.items()]})

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
