"""Objects wait for each other, also across kinds; one of another kind is another one."""

from typing import Any

import pytest

from toolkit.objects import ObjectKey
from webhooks.validation import circles
from webhooks.validation.circles import Waiter

Json = dict[str, Any]


def applier(kind: str, name: str, *others: Json) -> Json:
    return {
        "kind": kind,
        "metadata": {"namespace": "team", "name": name},
        "spec": {"dependsOn": list(others)},
    }


def faults(obj: Json, *there: Json, proven: bool = True) -> list[tuple[str, str]]:
    """Return field and message of every fault."""
    seen = {
        Waiter(each["kind"], ObjectKey(each["metadata"]["namespace"], each["metadata"]["name"])): (
            circles.seen(each)
        )
        for each in there
    }
    return [(fault.field, fault.why) for fault in circles.find(obj, seen.get, proven=proven)]


@pytest.mark.parametrize("kind", ["Kustomization", "HelmRelease"])
@pytest.mark.parametrize("named", [False, True])
def test_objects_of_a_kind_do_not_wait_for_each_other(kind: str, *, named: bool) -> None:
    said = {"kind": kind} if named else {}
    other = applier(kind, "b", {"name": "a", **said})

    assert faults(applier(kind, "a", {"name": "b", **said}), other) == [
        ("spec.dependsOn[0]", "it would wait for itself: team/a, team/b, team/a")
    ]


@pytest.mark.parametrize(
    ("kind", "other"), [("Kustomization", "HelmRelease"), ("HelmRelease", "Kustomization")]
)
def test_objects_of_two_kinds_do_not_wait_for_each_other(kind: str, other: str) -> None:
    there = applier(other, "a", {"name": "b"}), applier(other, "b", {"name": "a", "kind": kind})

    found = faults(applier(kind, "a", {"name": "a", "kind": other}), *there)

    way = f"{kind}/team/a, {other}/team/a, {other}/team/b, {kind}/team/a"
    assert found == [("spec.dependsOn[0]", f"it would wait for itself: {way}")]


def test_who_may_be_anybody_is_told_no_more_than_they_named() -> None:
    there = (
        applier("Kustomization", "b", {"name": "hidden"}),
        applier("Kustomization", "hidden", {"name": "a", "kind": "HelmRelease"}),
    )
    obj = applier("HelmRelease", "a", {"name": "b", "kind": "Kustomization"})

    found = faults(obj, *there, proven=False)

    assert [told for _, told in found] == [
        "it would wait for itself, by way of Kustomization/team/b"
    ]


def test_a_release_may_wait_for_a_kustomization_of_its_own_name() -> None:
    there = applier("HelmRelease", "b", {"name": "a"})

    for name in "ab":
        obj = applier("HelmRelease", "a", {"kind": "Kustomization", "name": name})
        assert faults(obj, there) == []


def test_what_the_api_server_tells_is_read_as_an_object_of_its_kind() -> None:
    body = (
        b'{"metadata":{"name":"a","namespace":"team"},'
        b'"spec":{"dependsOn":[{"name":"b","kind":"Kustomization"},{"name":"c"}]}}'
    )

    assert circles.decode(body, "HelmRelease").waits_for == (
        Waiter("Kustomization", ObjectKey("team", "b")),
        Waiter("HelmRelease", ObjectKey("team", "c")),
    )
