"""Stages, ranks and what an object cannot be judged without."""

from typing import Any

from toolkit.apply import order
from toolkit.objects import Json, ref_of


def _obj(kind: str, name: str = "x", *, group: str = "", **fields: Any) -> Json:
    api_version = f"{group}/v1" if group else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


CRD = _obj(
    "CustomResourceDefinition",
    "widgets.example.com",
    group="apiextensions.k8s.io",
    spec={"group": "example.com", "names": {"kind": "Widget"}},
)
RBAC = "rbac.authorization.k8s.io"


def test_stages_come_in_the_order_of_flux() -> None:
    objects = [
        _obj("ValidatingWebhookConfiguration", group="admissionregistration.k8s.io"),
        _obj("Widget", group="example.com"),
        _obj("Deployment", group="apps"),
        _obj("Provider", group="example.com"),
        _obj("StorageClass", group="storage.k8s.io"),
        _obj("ConfigMap"),
        _obj("ClusterRole", group=RBAC),
        _obj("Namespace"),
        CRD,
    ]

    stages = order.stages(objects, custom={("example.com", "Provider")})

    assert [
        (stage.name, stage.awaited, [o["kind"] for o in stage.objects]) for stage in stages
    ] == [
        ("definitions", True, ["CustomResourceDefinition", "Namespace", "ClusterRole"]),
        ("classes", True, ["StorageClass"]),
        ("custom", False, ["Provider"]),
        (
            "resources",
            False,
            ["ConfigMap", "Deployment", "Widget", "ValidatingWebhookConfiguration"],
        ),
    ]


def test_only_objects_of_one_rank_go_together() -> None:
    objects = [_obj("Job"), _obj("ConfigMap", "a"), _obj("ConfigMap", "b"), _obj("Ingress")]
    (stage,) = order.stages(objects)

    runs = [[o["kind"] for o in run] for run in order.by_rank(stage.objects)]

    assert runs == [["ConfigMap", "ConfigMap"], ["Ingress", "Job"]]


def test_deletion_goes_the_other_way() -> None:
    objects = [_obj("Namespace"), _obj("Deployment", group="apps"), _obj("Job"), CRD]

    runs = list(order.deletion_ranks(map(ref_of, objects)))

    assert [[ref.gvk.kind for ref in run] for run in runs] == [
        ["Job"],
        ["Deployment"],
        ["Namespace"],
        ["CustomResourceDefinition"],
    ]


def test_workloads_and_what_they_use_are_deleted_together_before_what_permits_them() -> None:
    kinds = ["Role", "ServiceAccount", "ConfigMap", "Secret", "Service", "Deployment", "Widget"]

    runs = list(order.deletion_ranks(ref_of(_obj(kind)) for kind in kinds))

    assert [sorted(ref.gvk.kind for ref in run) for run in runs] == [
        ["Widget"],
        ["ConfigMap", "Deployment", "Secret", "Service"],
        ["Role"],
        ["ServiceAccount"],
    ]


def test_a_custom_object_needs_its_definition_and_its_namespace() -> None:
    widget = _obj("Widget", group="example.com")
    widget["metadata"]["namespace"] = "shop"
    kind = order.defined_kind(CRD)
    assert kind

    needs = order.needs(widget, {kind: ref_of(CRD).identity})

    assert needs == {ref_of(CRD).identity, ("", "Namespace", "", "shop")}


def test_a_binding_needs_the_cluster_role_that_it_names() -> None:
    binding = _obj("RoleBinding", group=RBAC, roleRef={"kind": "ClusterRole", "name": "view"})
    local = _obj("RoleBinding", group=RBAC, roleRef={"kind": "Role", "name": "view"})

    assert (RBAC, "ClusterRole", "", "view") in order.needs(binding, {})
    assert order.needs(local, {}) == frozenset()


def test_a_bare_pod_needs_its_priority_class() -> None:
    pod = _obj("Pod", spec={"priorityClassName": "high"})

    assert ("scheduling.k8s.io", "PriorityClass", "", "high") in order.needs(pod, {})
