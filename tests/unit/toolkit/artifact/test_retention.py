"""Older artifacts stay for a while, for those who were just told of them."""

import math

import pytest

from toolkit.artifact.retention import Stored, expired, next_expiry

NOW = 1_000.0


def stored(**ages: float) -> list[Stored]:
    return [Stored(name=name, modified=NOW - age) for name, age in ages.items()]


@pytest.mark.parametrize(
    ("ages", "current", "gone"),
    [
        ({"a": 500, "b": 400, "c": 300}, "c", ("a",)),
        ({"a": 500, "b": 400, "c": 300, "d": 10}, "d", ("b", "a")),
        ({"a": 59, "b": 50, "c": 40, "d": 30}, "d", ()),
        ({"a": 61, "b": 50, "c": 40, "d": 30}, "d", ("a",)),
        ({"a": 500, "b": 400, "c": 300}, "a", ()),
        ({"a": 500, "b": 400, "c": 300}, "", ("a",)),
        ({"a": 500}, "", ()),
        ({}, "", ()),
    ],
)
def test_what_is_old_and_not_among_the_newest_goes(
    ages: dict[str, float], current: str, gone: tuple[str, ...]
) -> None:
    assert expired(stored(**ages), current=current, now=NOW, ttl=60, records=2) == gone


def test_with_no_records_only_the_current_stays() -> None:
    files = stored(a=500, b=400)

    assert expired(files, current="a", now=NOW, ttl=0, records=0) == ("b",)


def test_the_next_to_go_is_known_beforehand() -> None:
    files = stored(a=0, b=-10, c=-20)
    due = next_expiry(files, current="a", ttl=60, records=1)

    assert due == NOW + 70
    assert expired(files, current="a", now=due, ttl=60, records=1) == ()
    assert expired(files, current="a", now=due + 1, ttl=60, records=1) == ("b",)


def test_what_nothing_replaces_never_goes() -> None:
    files = stored(a=1, b=0)

    assert next_expiry(files, current="", ttl=60, records=2) == math.inf
    assert next_expiry(files, current="a", ttl=60, records=1) == math.inf
    assert next_expiry([], current="", ttl=60, records=0) == math.inf
