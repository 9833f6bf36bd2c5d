"""Totals are kept up row by row, and say what counting all rows would say."""

from hypothesis import given
from hypothesis import strategies as st

from apiserver.inventories import drift
from apiserver.inventories.drift import Drift
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.rows import Flag, Row
from tests.unit.apiserver.inventories.scene import APPLIER, applied
from toolkit.apply.health import Health, Status
from toolkit.apply.order import Identity

OBJECTS: list[Identity] = [("", "ConfigMap", "shop", name) for name in "abc"]
FLAGS = [
    Flag(0),
    Flag.UNREAD,
    Flag.OBSERVED,
    Flag.OBSERVED | Flag.READY,
    Flag.OBSERVED | Flag.READY | Flag.DRIFTED,
    Flag.OBSERVED | Flag.DRIFTED | Flag.MISSING,
]
STEPS = st.lists(st.tuples(st.sampled_from(OBJECTS), st.sampled_from([None, *FLAGS])))


def row(flags: Flag, known: Drift = drift.NONE) -> Row:
    return Row(flags=flags, health=Health(Status.UNKNOWN), drift=known)


@given(steps=STEPS)
def test_totals_are_those_of_all_rows(steps: list[tuple[Identity, Flag | None]]) -> None:
    inventory = Inventory(applier=APPLIER, applied=applied())
    shown: dict[Identity, Flag] = {}

    for identity, flags in steps:
        if flags is None:
            inventory.drop(identity)
            shown.pop(identity, None)
        else:
            inventory.put(identity, row(flags))
            shown[identity] = flags

    for flag in Flag:
        assert inventory.count(flag) == sum(bool(flags & flag) for flags in shown.values())
    assert list(inventory.flags) == list(shown)
    assert inventory.problems.keys() == {each for each, flags in shown.items() if flags != FLAGS[3]}
    assert all(inventory.totals.values()), "what no object has is not kept"


def test_a_row_is_told_when_it_may_look_otherwise() -> None:
    inventory = Inventory(applier=APPLIER, applied=applied())
    one, fine, broken = OBJECTS[0], row(FLAGS[3]), row(FLAGS[4], Drift(state="Changed"))

    told = [inventory.put(one, each) for each in (fine, fine, broken, broken, fine, fine)]

    assert told == [True, False, True, True, True, False]
