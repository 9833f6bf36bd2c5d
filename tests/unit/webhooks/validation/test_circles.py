"""Objects of a kind wait for each other; one of another kind with the same name is another one."""

from typing import Any

import pytest

from toolkit.objects import ObjectKey
from webhooks.validation import circles
from webhooks.validation.circles import Seen

Json = dict[str, Any]


def applier(kind: str, name: str, *others: Json) -> Json:
    return {
        "kind": kind,
        "metadata": {"namespace": "team", "name": name},
        "spec": {"dependsOn": list(others)},
    }


def found(obj: Json, **there: Json) -> list[str]:
    seen = {ObjectKey("team", name): circles.seen(each) for name, each in there.items()}
    return [fault.field for fault in circles.find(obj, seen.get)]


@pytest.mark.parametrize("kind", ["Kustomization", "HelmRelease"])
@pytest.mark.parametrize("named", [{}, {"kind": True}])
def test_objects_of_a_kind_do_not_wait_for_each_other(kind: str, named: Json) -> None:
    said = {"kind": kind} if named else {}
    other = applier(kind, "b", {"name": "a", **said})

    assert found(applier(kind, "a", {"name": "b", **said}), b=other) == ["spec.dependsOn[0]"]


def test_a_release_may_wait_for_a_kustomization_of_its_own_name() -> None:
    there = applier("HelmRelease", "b", {"name": "a"})

    assert found(applier("HelmRelease", "a", {"kind": "Kustomization", "name": "a"}), b=there) == []
    assert found(applier("HelmRelease", "a", {"kind": "Kustomization", "name": "b"}), b=there) == []


def test_what_the_api_server_tells_is_read_as_an_object_of_its_kind() -> None:
    body = (
        b'{"metadata":{"name":"a","namespace":"team"},'
        b'"spec":{"dependsOn":[{"name":"b","kind":"Kustomization"},{"name":"c"}]}}'
    )

    assert circles.decode(body, "HelmRelease") == Seen((ObjectKey("team", "c"),), None)
