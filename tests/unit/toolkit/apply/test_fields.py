"""Reading managedFields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.apply import fields
from toolkit.apply.fields import Item
from toolkit.objects import Json


def _entry(manager: str, operation: str = "Apply", **more: Any) -> Json:
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:data": {}}, **more}


def _obj(*entries: Json) -> Json:
    return {"metadata": {"managedFields": list(entries)}}


def test_the_digest_ignores_the_time_and_the_order_of_keys() -> None:
    one = _obj(_entry("us", time="2026-01-01T00:00:00Z", apiVersion="v1"))
    other = _obj(_entry("us", apiVersion="v1", time="2027-01-01T00:00:00Z"))

    assert fields.entry_digest(one, "us") == fields.entry_digest(other, "us") != ""


def test_the_digest_changes_with_the_fields() -> None:
    more = _entry("us", fieldsV1={"f:data": {"f:key": {}}})

    assert fields.entry_digest(_obj(_entry("us")), "us") != fields.entry_digest(_obj(more), "us")


@pytest.mark.parametrize(
    "entry",
    [_entry("others"), _entry("us", "Update"), _entry("us", subresource="scale")],
)
def test_only_our_own_apply_counts(entry: Json) -> None:
    assert fields.entry_digest(_obj(entry), "us") == ""


def test_those_who_report_status_are_no_writers() -> None:
    obj = _obj(
        _entry("us"),
        _entry("us", "Update"),
        _entry("kubelet", "Update", subresource="status"),
        _entry("scaler", "Update", subresource="scale"),
    )

    assert [writer.manager for writer in fields.other_writers(obj, "us")] == ["us", "scaler"]


def test_a_union_holds_the_fields_of_both() -> None:
    one = {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {}}}
    other = {"f:data": {"f:b": {"f:c": {}}}}

    assert fields.union([one, other]) == {
        "f:data": {".": {}, "f:a": {}, "f:b": {"f:c": {}}},
        "f:metadata": {"f:labels": {}},
    }


TREE = {
    "f:spec": {
        "f:replicas": {},
        "f:atomic": {},
        "f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}},
        "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}}},
    },
    "f:metadata": {"f:finalizers": {'v:"keep"': {}}},
}


@pytest.mark.parametrize(
    ("steps", "owned"),
    [
        (["spec", "replicas"], True),
        (["spec", "paused"], False),
        (["spec", "atomic", "below"], True),
        (["spec", "containers", Item({"name": "web"}), "image"], True),
        (["spec", "containers", Item({"name": "web"}), "command"], False),
        (["spec", "containers", Item({"name": "side"}), "image"], False),
        (["spec", "ports", Item({"containerPort": 80})], True),
        (["spec", "ports", Item({"containerPort": 80, "protocol": "UDP"})], False),
        (["metadata", "finalizers", Item("keep")], True),
        (["metadata", "finalizers", Item("drop")], False),
        (["spec"], True),
    ],
)
def test_ownership_of_a_field(steps: list[Any], owned: bool) -> None:  # noqa: FBT001 - a table
    assert fields.owns(TREE, steps) is owned


LEAF: st.SearchStrategy[Json] = st.just({})
TREES = st.recursive(
    LEAF,
    lambda below: st.dictionaries(st.sampled_from(["f:a", "f:b", ".", 'k:{"n":1}']), below),
    max_leaves=12,
)


@given(ours=TREES, others=st.lists(TREES, max_size=3))
def test_to_take_away_one_after_the_other_takes_away_all(ours: Json, others: list[Json]) -> None:
    left = ours
    for other in others:
        left = fields.without(left, other)

    assert left == fields.without(ours, fields.union(others))
    assert fields.size(left) <= fields.size(ours)
