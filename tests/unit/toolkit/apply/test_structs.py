"""Empty structs that the last apply sent are sent again, and no other field comes back."""

from typing import Any

import pytest

from toolkit.apply import structs
from toolkit.objects import Json

MANAGER = "kustomize-controller"


def _live(owned: Json, **entry: Any) -> Json:
    fields = {"manager": MANAGER, "operation": "Apply", "fieldsV1": owned, **entry}
    return {"metadata": {"managedFields": [fields]}}


def _job(template: Json, *, api_version: str = "batch/v1") -> Json:
    return {"apiVersion": api_version, "kind": "Job", "spec": {"template": template}}


def _owned(**template: Any) -> Json:
    return {"f:spec": {"f:template": {f"f:{name}": each for name, each in template.items()}}}


POD: Json = {"spec": {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "v"}]}}


def test_struct_is_sent_empty_again() -> None:
    found = structs.kept(_job(POD), _live(_owned(metadata={})), manager=MANAGER)

    assert found == _job({**POD, "metadata": {}})


def test_struct_in_the_item_of_a_list_is_found_by_its_key() -> None:
    containers = {'k:{"name":"b"}': {".": {}, "f:name": {}, "f:resources": {}}}
    owned = _owned(spec={"f:containers": containers})

    found = structs.kept(_job(POD), _live(owned), manager=MANAGER)

    assert found["spec"]["template"]["spec"]["containers"] == [
        {"name": "a"},
        {"name": "b", "resources": {}},
    ]


@pytest.mark.parametrize(
    "owned",
    [
        pytest.param(_owned(metadata={"f:labels": {}}), id="it has content"),
        pytest.param(
            _owned(spec={"f:volumes": {'k:{"name":"v"}': {"f:emptyDir": {}}}}), id="a pointer"
        ),
        pytest.param(
            _owned(spec={"f:containers": {'k:{"name":"gone"}': {"f:resources": {}}}}), id="gone"
        ),
        pytest.param({"f:metadata": {"f:annotations": {}}}, id="no struct"),
        pytest.param({}, id="nothing"),
    ],
)
def test_other_field_stays_away(owned: Json) -> None:
    payload = _job(POD)

    assert structs.kept(payload, _live(owned), manager=MANAGER) is payload


@pytest.mark.parametrize(
    "live",
    [
        _live(_owned(metadata={}), manager="kubectl"),
        _live(_owned(metadata={}), operation="Update"),
        {"metadata": {}},
    ],
)
def test_fields_of_others_are_not_sent(live: Json) -> None:
    payload = _job(POD)

    assert structs.kept(payload, live, manager=MANAGER) is payload


def test_kind_that_is_not_of_kubernetes_is_sent_as_it_is_written() -> None:
    payload = _job(POD, api_version="jobs.example.com/v1")

    assert structs.kept(payload, _live(_owned(metadata={})), manager=MANAGER) is payload
