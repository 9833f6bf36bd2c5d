"""An item keeps its JSON; what is made of it stays as long as readers are about to ask."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from apiserver.item import Event, Item
from apiserver.selectors import Selector, Term
from tests.fakes.readserver import gauge
from toolkit.objects import Json, ObjectKey

WEB = ObjectKey("apps", "web")


def item(version: int = 1) -> Item:
    return Item(WEB, gauge("web", level=version), version)


def event(old: Item) -> Event:
    return Event(version=2, at=0.0, key=WEB, olds=(old,), new=item(2))


def test_what_readers_ask_of_the_past_is_not_kept() -> None:
    asked: list[str] = []
    past = event(item())

    def line() -> bytes:
        asked.append("line")
        return b"line"

    def row(_: Item) -> Sequence[bytes]:
        asked.append("row")
        return (b"row",)

    for settled in (False, True):
        if settled:
            past.settle()
        for _ in range(2):
            past.line(("ADDED", ""), line)
            past.olds[0].made("Table", row)
        once = past.departed(past.olds[0]) is past.departed(past.olds[0])
        asked.append(f"departed {'once' if once else 'anew'}")

    assert asked == [
        *("line", "row", "departed once"),
        *("line", "row", "line", "row", "departed anew"),
    ]


def test_what_is_asked_of_many_past_states_is_read_of_none() -> None:
    """A watch that comes back asks a thousand of them, of which each costs up to 32 differences."""
    past, later = item(1), item(2)
    uid, size = past.uid, len(past.json)

    past.settle(later)

    assert (past.uid, past.size) == ("apps/web", size)
    # not one that was read again
    assert past.uid is uid


def test_a_selector_decodes_an_item_of_the_past_once() -> None:
    seen: list[Json] = []

    def read(obj: Json) -> str:
        seen.append(obj)
        return ""

    old = item()
    old.settle()
    terms = tuple(
        Term(field=field, read=read, equal=False, value=str(number))
        for field in "xy"
        for number in range(3)
    )

    assert Selector(fields=terms).matches(old)
    assert [each is seen[0] for each in seen] == [True] * 2, "and reads each field once"


def test_the_past_is_kept_as_what_differs_from_later() -> None:
    states = [item(version) for version in range(1, 100)]
    before = [state.json for state in states]

    for old, new in pairwise(states):
        Event(version=new.version, at=0.0, key=WEB, olds=(old,), new=new).settle()

    assert [state.json for state in states] == before
    assert [state.obj["metadata"]["resourceVersion"] for state in states[:2]] == ["1", "2"]
    assert max(state.following for state in states) < 40, "and is read in few steps"


def test_an_object_that_is_gone_leaves_its_last_state_whole() -> None:
    old = item()
    before = old.json

    Event(version=2, at=0.0, key=WEB, olds=(old,), new=None).settle()

    assert old.json == before
    assert old.uid


def test_a_resting_item_answers_as_before() -> None:
    fresh, resting = item(), item()
    row = resting.made("row", lambda _: (b"row",))

    resting.rest()

    assert (resting.json, resting.uid, resting.labels) == (fresh.json, fresh.uid, fresh.labels)
    assert resting.obj == fresh.obj
    assert resting.at(7).json == fresh.at(7).json
    assert resting.made("row", lambda _: (b"anew",)) is row, "what was made for readers stays"


@pytest.mark.parametrize("rests", [False, True])
def test_nothing_but_the_version_and_the_order_of_members_is_no_change(*, rests: bool) -> None:
    served = Item(WEB, gauge("web", labels={"a": "1", "b": "2"}, level=1), 1)
    if rests:
        served.rest()

    assert served.same(gauge("web", labels={"b": "2", "a": "1"}, level=1))
    assert not served.same(gauge("web", labels={"a": "1", "b": "2"}, level=2)), "of the same length"
    assert not served.same(gauge("web", labels={"a": "1", "b": "2"}, level=10))
    assert not served.same(gauge("web", labels={"a": "2", "b": "1"}, level=1))
    assert not served.same(gauge("web", level=1))


def test_the_newest_state_rests_when_nearly_all_watchers_have_it() -> None:
    old, new = item(1), item(2)

    Event(version=2, at=0.0, key=WEB, olds=(old,), new=new).settle()

    assert new.obj == new.obj
    assert new.obj is not new.obj, "decoded when somebody asks"
