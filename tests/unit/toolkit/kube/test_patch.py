"""A merge patch is the smallest that does the work."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.apiserver import merge
from toolkit.kube.patch import applied, merge_patch

SCALARS = st.integers(1, 3) | st.sampled_from(["a", "b"])
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(st.sampled_from("xyz"), SCALARS | st.lists(SCALARS, min_size=1), min_size=1),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner | SCALARS, min_size=1),
    max_leaves=8,
)


def test_equal_objects_need_no_patch() -> None:
    assert merge_patch({"a": {"b": [1]}}, {"a": {"b": [1]}}) == {}


def test_only_differences_are_sent() -> None:
    old = {"same": 1, "changed": {"x": 1, "y": 2}, "gone": True, "list": [1, 2]}
    new = {"same": 1, "changed": {"x": 1, "y": 3}, "list": [2]}

    assert merge_patch(old, new) == {"changed": {"y": 3}, "gone": None, "list": [2]}


def test_an_empty_value_adds_nothing_but_can_empty_what_is_there() -> None:
    assert merge_patch({}, {"flag": False, "text": "", "list": [], "none": None}) == {}
    assert merge_patch({"list": [1]}, {"list": []}) == {"list": []}


def test_nulls_inside_a_new_object_are_not_sent() -> None:
    assert merge_patch({}, {"a": {"b": None, "c": {"d": None, "e": 1}}}) == {"a": {"c": {"e": 1}}}


@given(OBJECTS, OBJECTS)
def test_applying_the_patch_gives_the_new_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = merge_patch(old, new)

    assert merge(old, patch) == applied(old, patch) == new
