"""Comparing two versions of an object."""

from typing import Any

from toolkit.apply import diff
from toolkit.objects import Json


def _obj(**fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, **fields}


def _told(before: Json, after: Json) -> list[tuple[str, str]]:
    return [(change.action, change.path) for change in diff.compare(before, after)]


def test_what_the_server_keeps_for_itself_is_no_difference() -> None:
    before = _obj(status={"a": 1})
    before["metadata"] = {"name": "x", "resourceVersion": "1", "generation": 1, "managedFields": []}

    assert _told(before, _obj(status={"a": 2})) == []


def test_fields_are_named_by_json_pointers() -> None:
    before = _obj(data={"same": "1", "a/b": "1", "gone~": "1"}, items=[1, 2, 3])
    after = _obj(data={"same": "1", "a/b": "2", "new": "1"}, items=[1, 5])

    assert _told(before, after) == [
        ("changed", "/data/a~1b"),
        ("removed", "/data/gone~0"),
        ("added", "/data/new"),
        ("changed", "/items/1"),
        ("removed", "/items/2"),
    ]


def test_a_new_secret_shows_no_value() -> None:
    secret = _obj(data={"password": "aHVudGVyMg=="}) | {"kind": "Secret"}

    assert "aHVudGVyMg" not in str(diff.compare({}, secret))
