"""ManagedFields of several versions become those of one."""

from typing import Any

from toolkit.kube.stored import relabelled


def entry(manager: str, version: str, *fields: str, **more: str) -> Any:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": f"example.com/{version}",
        "time": "2026-01-01T00:00:00Z",
        "fieldsV1": {"f:spec": {f"f:{name}": {} for name in fields}},
        **more,
    }


def test_what_a_manager_wrote_in_several_versions_becomes_one_entry() -> None:
    late = "2026-02-01T00:00:00Z"
    entries = (
        entry("kubectl", "v1beta2", "url", time=late),
        entry("kubectl", "v1", "interval", "url"),
        entry("kubectl", "v1beta2", "x", subresource="status"),
        entry("flux", "v1beta1", "ref", operation="Apply"),
    )

    found = relabelled(entries, "example.com/v1")

    assert {each["apiVersion"] for each in found} == {"example.com/v1"}
    first, status, flux = found
    assert first["fieldsV1"] == {"f:spec": {"f:url": {}, "f:interval": {}}}
    assert (first["time"], status["subresource"], flux["operation"]) == (late, "status", "Apply")
