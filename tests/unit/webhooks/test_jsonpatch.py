"""Patches turn one object into the other, and are no longer than they need be."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.objects import Json
from webhooks import jsonpatch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-1, 1) | st.text("a/~", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("a/~0", max_size=2), inner),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("a/~01", max_size=3), VALUES, max_size=4)


def applied(document: Json, patch: list[Json]) -> Json:
    """Apply RFC 6902 to the letter."""
    result: Any = copy.deepcopy(document)
    for operation in patch:
        *way, last = [
            step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
        ]
        place = result
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if isinstance(place, list):
            at = int(last)
            assert at < len(place) or (operation["op"] == "add" and at == len(place))
            if operation["op"] == "remove":
                del place[at]
            elif operation["op"] == "add":
                place.insert(at, operation["value"])
            else:
                place[at] = operation["value"]
        elif operation["op"] == "remove":
            del place[last]
        else:
            assert operation["op"] == "add" or last in place
            place[last] = operation["value"]
    return dict(result)


@given(OBJECTS, OBJECTS)
def test_a_patch_makes_one_object_of_the_other(before: Json, after: Json) -> None:
    made = applied(before, jsonpatch.diff(before, after))

    assert repr(sorted(made.items(), key=str)) == repr(sorted(after.items(), key=str)) or (
        jsonpatch.diff(made, after) == []
    )


@given(OBJECTS)
def test_equal_objects_need_no_patch(obj: Json) -> None:
    assert jsonpatch.diff(obj, copy.deepcopy(obj)) == []


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        (
            {"spec": {"a": 1, "b": 2}},
            {"spec": {"a": 1, "b": 3}},
            [{"op": "replace", "path": "/spec/b", "value": 3}],
        ),
        ({"a/b": 1, "c~d": 2}, {"c~d": 2}, [{"op": "remove", "path": "/a~1b"}]),
        ({}, {"c~d": 2}, [{"op": "add", "path": "/c~0d", "value": 2}]),
        (
            {"containers": [{"image": "a"}, {"image": "b"}]},
            {"containers": [{"image": "a@sha256:1"}, {"image": "b"}]},
            [{"op": "replace", "path": "/containers/0/image", "value": "a@sha256:1"}],
        ),
        ({"l": [1, 2, 3]}, {"l": [0, 1, 2, 3]}, [{"op": "add", "path": "/l/0", "value": 0}]),
        (
            {"l": [1, 2, 3, 4]},
            {"l": [1, 4]},
            [
                {"op": "remove", "path": "/l/2"},
                {"op": "remove", "path": "/l/1"},
            ],
        ),
        ({"a": True}, {"a": 1}, [{"op": "replace", "path": "/a", "value": 1}]),
        ({"a": None}, {}, [{"op": "remove", "path": "/a"}]),
    ],
)
def test_a_patch_is_no_longer_than_it_need_be(before: Json, after: Json, patch: list[Json]) -> None:
    assert jsonpatch.diff(before, after) == patch
