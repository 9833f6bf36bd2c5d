"""Who writes without a repository, as a table."""

from typing import Any

import pytest

import crds
from controllers import components
from toolkit.objects import GroupVersionKind, Json, ObjectRef
from toolkit.policy import machinery
from toolkit.policy.attempts import Attempt

CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u"}
OWNED: Json = {"ownerReferences": [CONTROLLER | {"controller": True}]}
LOOSELY: Json = {"ownerReferences": [CONTROLLER]}


def account(name: str, namespace: str = "kube-system") -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def thing(name: str = "web", *, type: str = "", **metadata: Any) -> Json:  # noqa: A002 - of Secrets
    return {"metadata": {"name": name, "namespace": "shop", **metadata}} | (
        {"type": type} if type else {}
    )


def attempt(
    operation: Any,
    resource: str,
    user: str,
    *,
    new: Json | None = None,
    old: Json | None = None,
    groups: tuple[str, ...] = (),
) -> Attempt:
    plural, _, subresource = resource.partition("/")
    present = new or old or thing()
    return Attempt(
        operation=operation,
        group="",
        resource=plural,
        subresource=subresource,
        ref=ObjectRef(GroupVersionKind("", "v1", "X"), "shop", present["metadata"]["name"]),
        user=user,
        groups=groups,
        object=new,
        old=old,
    )


def passes(one: Attempt) -> bool:
    return machinery.exemption(one, installed="flux-system") is not None


@pytest.mark.parametrize(
    "one",
    [
        # rolling and scaling
        attempt("CREATE", "replicasets", account("deployment-controller"), new=thing(**OWNED)),
        attempt("CREATE", "pods", account("replicaset-controller"), new=thing(**OWNED)),
        attempt("CREATE", "jobs", account("cronjob-controller"), new=thing(**OWNED)),
        attempt("CREATE", "pods", "system:kube-controller-manager", new=thing(**OWNED)),
        attempt("CREATE", "persistentvolumeclaims", account("statefulset-controller"), new=thing()),
        attempt(
            "UPDATE",
            "replicasets",
            account("deployment-controller"),
            old=thing(),
            new=thing(labels={"a": "b"}),
        ),
        attempt("UPDATE", "deployments/scale", account("horizontal-pod-autoscaler")),
        attempt("DELETE", "pods", account("replicaset-controller"), old=thing(**OWNED)),
        # clearing away
        attempt("DELETE", "configmaps", account("generic-garbage-collector"), old=thing(**LOOSELY)),
        attempt("DELETE", "pods", account("pod-garbage-collector"), old=thing()),
        attempt("DELETE", "pods", account("node-controller"), old=thing()),
        attempt("DELETE", "pods", "system:kube-scheduler", old=thing()),
        attempt("DELETE", "jobs", account("ttl-after-finished-controller"), old=thing()),
        attempt(
            "DELETE",
            "secrets",
            account("legacy-service-account-token-cleaner"),
            old=thing(type="kubernetes.io/service-account-token"),
        ),
        # what every namespace gets
        attempt(
            "CREATE",
            "configmaps",
            account("root-ca-cert-publisher"),
            new=thing("kube-root-ca.crt"),
        ),
        attempt(
            "CREATE", "serviceaccounts", account("service-account-controller"), new=thing("default")
        ),
        # nodes and schedulers
        attempt(
            "UPDATE",
            "pods",
            "system:kube-scheduler",
            old=thing(),
            new=thing(annotations={"a": "b"}),
        ),
        attempt(
            "CREATE",
            "pods",
            "system:node:one",
            groups=("system:nodes",),
            new=thing(annotations={"kubernetes.io/config.mirror": "x"}),
        ),
        # Penstock
        attempt(
            "UPDATE",
            "kustomizations",
            account("kustomize-controller", "flux-system"),
            old=thing(),
            new=thing(finalizers=["finalizers.fluxcd.io"]),
        ),
        attempt(
            "CREATE", "externalartifacts", account("source-controller", "flux-system"), new=thing()
        ),
        attempt("CREATE", "helmcharts", account("helm-controller", "flux-system"), new=thing()),
        attempt("DELETE", "helmcharts", account("helm-controller", "flux-system"), old=thing()),
        attempt(
            "UPDATE",
            "imagepolicies",
            account("image-controller", "flux-system"),
            old=thing(),
            new=thing(finalizers=["finalizers.fluxcd.io"]),
        ),
        # anybody
        attempt("UPDATE", "deployments", "alice", old=thing(), new=thing()),
        attempt(
            "UPDATE",
            "kustomizations",
            "alice",
            old=thing(resourceVersion="1"),
            new=thing(
                resourceVersion="2",
                managedFields=[
                    {
                        "manager": "flux",
                        "operation": "Update",
                        "time": "2026-01-01T00:00:00Z",
                        "fieldsV1": {
                            "f:metadata": {
                                "f:annotations": {
                                    ".": {},
                                    "f:reconcile.fluxcd.io/requestedAt": {},
                                }
                            }
                        },
                    }
                ],
                annotations={"reconcile.fluxcd.io/requestedAt": "now"},
            ),
        ),
        attempt("DELETE", "pods", "alice", old=thing(**OWNED)),
    ],
    ids=lambda one: f"{one.operation} {one.resource} {one.user.rpartition(':')[2]}",
)
def test_these_need_no_repository(one: Attempt) -> None:
    assert passes(one)


@pytest.mark.parametrize(
    "one",
    [
        # people
        attempt("CREATE", "deployments", "alice", new=thing()),
        attempt("CREATE", "pods", "alice", new=thing(**OWNED)),
        attempt("UPDATE", "deployments", "alice", old=thing(), new=thing(labels={"a": "b"})),
        attempt("UPDATE", "deployments", "alice", old=thing(), new=thing(annotations={"a": "b"})),
        attempt(
            "UPDATE",
            "deployments",
            "alice",
            old=thing(),
            new=thing(managedFields=[{"manager": "x"}]),
        ),
        attempt("UPDATE", "deployments", "alice", old=thing(), new=thing(finalizers=["x"])),
        attempt("UPDATE", "deployments/scale", "alice", old=thing(), new=thing()),
        attempt("UPDATE", "pods/ephemeralcontainers", "alice", old=thing(), new=thing()),
        attempt("UPDATE", "deployments/status", "alice", old=thing(), new=thing()),
        attempt("DELETE", "deployments", "alice", old=thing()),
        attempt("DELETE", "replicasets", "alice", old=thing(**OWNED)),
        attempt("DELETE", "pods", "alice", old=thing()),
        attempt("CREATE", "pods", "system:admin", groups=("system:masters",), new=thing(**OWNED)),
        # names that only look like the cluster's
        attempt("CREATE", "pods", account("replicaset-controller", "shop"), new=thing(**OWNED)),
        attempt("UPDATE", "pods", account("helpful-addon"), old=thing(), new=thing(labels={})),
        attempt(
            "UPDATE", "pods", "replicaset-controller", old=thing(), new=thing(labels={"a": ""})
        ),
        attempt(
            "UPDATE",
            "kustomizations",
            account("kustomize-controller", "shop"),
            old=thing(),
            new=thing(finalizers=["finalizers.fluxcd.io"]),
        ),
        attempt("CREATE", "pods", "system:nodes", new=thing()),
        # the cluster's, at what does not follow from anything admitted
        attempt("CREATE", "pods", account("replicaset-controller"), new=thing()),
        attempt("CREATE", "pods", account("replicaset-controller"), new=thing(**LOOSELY)),
        attempt("DELETE", "configmaps", account("generic-garbage-collector"), old=thing()),
        attempt("DELETE", "pods", account("replicaset-controller"), old=thing()),
        attempt("CREATE", "configmaps", account("root-ca-cert-publisher"), new=thing("mine")),
        attempt("DELETE", "secrets", account("legacy-service-account-token-cleaner"), old=thing()),
        attempt("UPDATE", "secrets", "system:kube-scheduler", old=thing(), new=thing(labels={})),
        attempt("CREATE", "pods", "system:node:one", groups=("system:nodes",), new=thing()),
        attempt(
            "UPDATE",
            "kustomizations",
            account("kustomize-controller", "flux-system"),
            old=thing(),
            new=thing() | {"spec": {"path": "./other"}},
        ),
        attempt("CREATE", "configmaps", account("kustomize-applier", "flux-system"), new=thing()),
        # ours, at what others generate
        attempt("CREATE", "helmcharts", account("source-controller", "flux-system"), new=thing()),
        attempt("CREATE", "externalartifacts", account("helm-controller", "flux-system")),
        attempt("DELETE", "helmcharts", account("helm-controller", "shop"), old=thing()),
        attempt("DELETE", "helmcharts", "alice", old=thing(**OWNED)),
        attempt("UPDATE", "imagepolicies/status", "alice", old=thing(), new=thing()),
    ],
    ids=lambda one: f"{one.operation} {one.resource} {one.user.rpartition(':')[2]}",
)
def test_these_need_one(one: Attempt) -> None:
    assert not passes(one)


def test_what_a_controller_makes_is_looked_up() -> None:
    made = attempt("CREATE", "pods", account("replicaset-controller"), new=thing(**OWNED))
    row = machinery.exemption(made, installed="flux-system")

    assert row is not None
    assert row.admitted


def test_a_request_annotation_brings_nothing_else_along() -> None:
    asked = {"reconcile.fluxcd.io/requestedAt": "now"}
    sneaky = attempt(
        "UPDATE",
        "kustomizations",
        "alice",
        old=thing(),
        new=thing(annotations=asked) | {"spec": {"suspend": True}},
    )

    assert not passes(sneaky)


_REPLICAS: Json = {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([], id="wiped"),
        pytest.param([("web", "Apply", {"f:spec": {}})], id="taken"),
        pytest.param([("web", "Apply", _REPLICAS), ("me", "Apply", _REPLICAS)], id="shared"),
        pytest.param([("web", "Update", _REPLICAS)], id="otherwise"),
    ],
)
def test_a_request_annotation_takes_no_field_from_who_manages_it(
    fields: list[tuple[str, str, Json]],
) -> None:
    def managed(entries: list[tuple[str, str, Json]]) -> list[Json]:
        return [
            {"manager": manager, "operation": operation, "fieldsV1": owned}
            for manager, operation, owned in entries
        ]

    asked = {"reconcile.fluxcd.io/requestedAt": "now"}
    before = thing(managedFields=managed([("web", "Apply", _REPLICAS)]))
    after = thing(managedFields=managed(fields), annotations=asked)

    assert not passes(attempt("UPDATE", "deployments", "alice", old=before, new=after))


def test_owners_are_read_in_the_version_that_is_stored() -> None:
    for (group, kind), (plural, gvk) in machinery.OWNERS.items():
        assert gvk.group_kind == (group, kind)
        assert plural == f"{kind.lower()}s"


def test_every_kind_is_reconciled_by_an_account_that_exists() -> None:
    deployed = {components.load(name).account for name in components.NAMES}
    reconciled = {kind.component for kind in crds.KINDS if kind.namespaced} - {"webhooks"}

    assert set(machinery.ACCOUNTS) == reconciled
    assert set(machinery.ACCOUNTS.values()) == deployed
