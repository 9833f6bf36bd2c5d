"""What bootstrap has made is proven; all else in the namespace is somebody's."""

import copy
from typing import Any

import pytest

from cli.installing import following

PLACE = "penstock-system"
OWNED = {
    "kustomize.toolkit.fluxcd.io/name": PLACE,
    "kustomize.toolkit.fluxcd.io/namespace": PLACE,
}


def obj(api_version: str, kind: str, name: str, *, labels: Any = None, **more: Any) -> Any:
    metadata = {"name": name, "namespace": PLACE, "labels": dict(labels or {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def secret(*writers: tuple[str, str]) -> Any:
    found = obj("v1", "Secret", PLACE)
    found["metadata"]["managedFields"] = [
        {"manager": manager, "operation": operation, "fieldsV1": {"f:data": {"f:password": {}}}}
        for manager, operation in writers
    ]
    return found


@pytest.fixture
def bootstrapped() -> dict[str, Any]:
    source = {"kind": "GitRepository", "name": PLACE}
    return {
        "pods": obj("apps/v1", "Deployment", "webhook", labels=OWNED),
        "applier": obj(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            PLACE,
            labels=OWNED,
            spec={"sourceRef": source},
        ),
        "source": obj(
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
            PLACE,
            labels=OWNED,
            spec={"secretRef": {"name": PLACE}},
        ),
        "secret": secret(("penstock", "Apply")),
        "other": obj("v1", "Secret", "mine"),
    }


def kinds(objects: dict[str, Any]) -> set[str]:
    return {ref.gvk.kind for ref in following.made(PLACE, objects.values())}


def test_the_objects_that_follow_the_repository_are_bootstraps(bootstrapped: Any) -> None:
    assert kinds(bootstrapped) == {"Kustomization", "GitRepository", "Secret"}


@pytest.mark.parametrize(
    ("name", "path", "value", "left"),
    [
        ("pods", ("metadata", "labels"), {}, set()),
        ("applier", ("metadata", "labels"), {}, set()),
        ("applier", ("metadata", "name"), "fleet", set()),
        (
            "applier",
            ("spec", "sourceRef"),
            {"kind": "GitRepository", "name": PLACE, "namespace": "other"},
            {"Kustomization"},
        ),
        (
            "applier",
            ("spec", "sourceRef"),
            {"kind": "OCIRepository", "name": PLACE},
            {"Kustomization"},
        ),
        ("source", ("metadata", "labels"), {}, {"Kustomization"}),
        ("source", ("spec",), {}, {"Kustomization", "GitRepository"}),
        ("secret", ("metadata", "name"), "theirs", {"Kustomization", "GitRepository"}),
    ],
)
def test_without_its_proof_an_object_is_somebodys(
    bootstrapped: Any, name: str, path: tuple[str, ...], value: Any, left: set[str]
) -> None:
    changed = copy.deepcopy(bootstrapped)
    *above, last = path
    node = changed[name]
    for step in above:
        node = node[step]
    node[last] = value

    assert kinds(changed) == left


@pytest.mark.parametrize(
    "writers",
    [
        (),
        (("kubectl-edit", "Update"),),
        (("penstock", "Apply"), ("kubectl-edit", "Update")),
        (("penstock", "Update"),),
    ],
)
def test_a_secret_that_somebody_else_wrote_is_theirs(bootstrapped: Any, writers: Any) -> None:
    bootstrapped["secret"] = secret(*writers)

    assert "Secret" not in kinds(bootstrapped)
