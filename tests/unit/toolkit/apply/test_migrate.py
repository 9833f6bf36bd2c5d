"""The patch that takes over other managers' fields."""

from typing import Any

import pytest

from toolkit.apply import migrate
from toolkit.apply.ownership import LAST_APPLIED
from toolkit.objects import Json

US = "kustomize-controller"


def _entry(manager: str, operation: str, field: str, **more: Any) -> Json:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {f"f:{field}": {}},
        **more,
    }


def _obj(*entries: Json, **annotations: str) -> Json:
    metadata = {"resourceVersion": "7", "managedFields": list(entries), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


OURS = _entry(US, "Apply", "ours")


@pytest.mark.parametrize(
    ("entry", "due"),
    [
        (_entry("kubectl", "Apply", "a"), True),
        (_entry("kubectl-client-side-apply", "Update", "a"), True),
        (_entry("kubectl-edit", "Update", "a"), True),
        (_entry("before-first-apply", "Update", "a"), True),
        (_entry(US, "Update", "a"), True),
        (_entry("named", "Update", "a"), True),
        (_entry("operator", "Update", "a"), False),
        (_entry("kubectl", "Update", "a", subresource="scale"), False),
        (_entry(US, "Update", "a", subresource="status"), False),
    ],
)
def test_whose_fields_are_taken(entry: Json, due: bool) -> None:  # noqa: FBT001 - a table
    assert migrate.due(_obj(OURS, entry), US, {"named"}) is due


def test_our_own_apply_alone_is_nothing_to_take() -> None:
    assert not migrate.due(_obj(OURS), US)


def test_kubectls_copy_of_the_manifest_is_taken_away() -> None:
    live = _obj(OURS, **{LAST_APPLIED: "{}"})

    assert migrate.due(live, US)
    assert migrate.patch(live, answer=live, manager=US) == [
        {
            "op": "remove",
            "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
        }
    ]


def test_taken_entries_are_tested_and_melt_into_ours() -> None:
    foreign, status = _entry("kubectl-edit", "Update", "a"), _entry("x", "Update", "s")
    mine = _entry(US, "Update", "b")
    live = _obj(OURS, foreign, status, mine)

    patch = migrate.patch(live, answer=live, manager=US)

    assert [(one["op"], one["path"]) for one in patch] == [
        ("test", "/metadata/managedFields/0"),
        ("test", "/metadata/managedFields/1"),
        ("test", "/metadata/managedFields/3"),
        ("replace", "/metadata/managedFields/0"),
        ("remove", "/metadata/managedFields/3"),
        ("remove", "/metadata/managedFields/1"),
    ]
    assert patch[3]["value"] == {**OURS, "fieldsV1": {"f:a": {}, "f:b": {}, "f:ours": {}}}


def test_without_any_entry_the_servers_guess_becomes_ours() -> None:
    guess = _entry("before-first-apply", "Update", "all")

    patch = migrate.patch(_obj(), answer=_obj(OURS, guess), manager=US)

    assert patch[0] == {"op": "add", "path": "/metadata/resourceVersion", "value": "7"}
    assert [(e["manager"], e["fieldsV1"]) for e in patch[1]["value"]] == [(US, {"f:all": {}})]
