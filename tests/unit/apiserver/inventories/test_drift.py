"""Drift, as somebody sees it who did not apply."""

from dataclasses import replace

import pytest

from apiserver.inventories import drift
from apiserver.inventories.drift import Memory, Observed
from toolkit.apply.fields import Writer
from toolkit.apply.health import Health, Status
from toolkit.apply.projection import Live
from toolkit.objects import ObjectKey

LIVE = Live(
    uid="u",
    resource_version="10",
    entry="ours",
    writers=(),
    owner=ObjectKey("shop", "app"),
    health=Health(Status.CURRENT),
    rule="",
)
SEEN = Observed(live=LIVE, created="", applied="2026-01-01T10:00:00Z", later=())
KUBECTL = Writer("kubectl-edit", "Update", "1")


def _seen(**live: object) -> Observed:
    return replace(SEEN, live=replace(LIVE, **live))  # type: ignore[arg-type] # fields of Live


def _after(new: Observed, *, old: Observed = SEEN, later: float = 60) -> Memory:
    return drift.follow(drift.first(old, now=0), new, old, now=later)


def test_an_object_as_it_was_applied_has_not_drifted() -> None:
    assert drift.first(SEEN, now=0).drift == drift.NONE


def test_a_field_taken_by_somebody_is_drift_and_names_them() -> None:
    memory = _after(_seen(entry="less", writers=(KUBECTL,)))

    assert (memory.drift.state, memory.drift.managers) == ("Changed", ("kubectl-edit",))


def test_a_field_removed_by_nobody_in_particular_is_drift() -> None:
    memory = _after(_seen(entry="less"))

    assert (memory.drift.state, memory.drift.managers) == ("Changed", ())


def test_fields_of_others_are_no_drift() -> None:
    assert _after(_seen(writers=(KUBECTL,))).drift == drift.NONE


def test_a_new_apply_is_no_drift() -> None:
    new = replace(_seen(entry="more"), applied="2026-01-01T10:05:00Z")

    assert _after(new).drift == drift.NONE


def test_two_applies_within_a_second_are_no_drift() -> None:
    memory = _after(_seen(entry="more"), later=1)

    assert memory.drift == drift.NONE
    assert drift.follow(memory, _seen(entry="less"), None, now=60).drift.state == "Changed"


def test_a_field_taken_within_a_second_is_drift_if_it_has_a_new_owner() -> None:
    assert _after(_seen(entry="less", writers=(KUBECTL,)), later=1).drift.state == "Changed"


@pytest.mark.parametrize(
    "healed",
    [SEEN, replace(_seen(entry="other"), applied="2026-01-01T10:00:01Z")],
    ids=["as it was", "applied anew"],
)
def test_a_correction_heals(healed: Observed) -> None:
    taken = _seen(entry="less", writers=(KUBECTL,))

    assert drift.follow(_after(taken), healed, taken, now=61).drift == drift.NONE


def test_culprits_add_up_until_it_heals() -> None:
    first = _seen(entry="less", writers=(KUBECTL,))
    second = _seen(entry="least", writers=(KUBECTL, Writer("helm", "Apply", "2")))

    memory = drift.follow(_after(first), second, first, now=61)

    assert memory.drift.managers == ("helm", "kubectl-edit")


def test_an_object_without_our_entry_has_drifted_at_first_sight() -> None:
    memory = drift.first(_seen(entry="", writers=(KUBECTL,)), now=0)

    assert (memory.drift.state, memory.drift.managers) == ("Changed", ("kubectl-edit",))


def test_an_entry_that_goes_is_drift_and_heals() -> None:
    wiped = _seen(entry="", writers=(KUBECTL,))
    memory = _after(wiped)

    assert memory.drift.state == "Changed"
    assert drift.follow(memory, SEEN, wiped, now=61).drift == drift.NONE


def test_writes_before_the_first_look_may_be_drift() -> None:
    before = replace(SEEN, later=("kubectl-edit",))
    memory = drift.first(before, now=0)

    assert (memory.drift.state, memory.drift.managers) == ("Possible", ("kubectl-edit",))
    assert drift.follow(memory, SEEN, before, now=1).drift == drift.NONE


def test_an_object_that_was_replaced_is_looked_at_afresh() -> None:
    assert _after(_seen(uid="other", entry="new")).drift == drift.NONE
    assert _after(_seen(uid="other", entry="")).drift.state == "Changed"
