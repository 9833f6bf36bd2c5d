"""What is aggregated into the roles of tenants lets them write objects, and not what we tell."""

from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
TO = "rbac.authorization.k8s.io/aggregate-to-"
READ = {"get", "list", "watch"}
OURS = {"status", "finalizers"}


def written(role: dict[str, Any]) -> list[str]:
    """Return the subresources of ours that the role lets its holder write."""
    return [
        resource
        for rule in role.get("rules") or ()
        if not READ.issuperset(rule["verbs"])
        for resource in rule.get("resources") or ()
        if resource == "*" or resource.rpartition("/")[2] in {*OURS, "*"}
    ]


def aggregated() -> list[dict[str, Any]]:
    found = (
        role
        for path in DEPLOY.rglob("*.yaml")
        if DEPLOY / "chart" not in path.parents
        for role in yaml.safe_load_all(path.read_text())
        if role and role["kind"] == "ClusterRole"
    )
    return [r for r in found if any(x.startswith(TO) for x in r["metadata"].get("labels", ()))]


def test_roles_of_tenants_write_neither_status_nor_finalizers() -> None:
    assert {role["metadata"]["name"]: written(role) for role in aggregated() if written(role)} == {}


@pytest.mark.parametrize(
    ("verbs", "resource", "writes"),
    [
        (["patch"], "gitrepositories/status", True),
        (["*"], "kustomizations/finalizers", True),
        (["update"], "*/status", True),
        (["create"], "*", True),
        (["get"], "gitrepositories/status", False),
        (["patch"], "gitrepositories", False),
    ],
)
def test_a_role_that_lets_them_would_be_found(
    verbs: list[str], resource: str, *, writes: bool
) -> None:
    rule = {"apiGroups": ["source.toolkit.fluxcd.io"], "resources": [resource], "verbs": verbs}

    assert bool(written({"rules": [rule]})) is writes


def test_rules_that_kubernetes_fills_in_are_left_to_it() -> None:
    roles = yaml.safe_load_all((DEPLOY / "base/apiserver/rbac.yaml").read_text())
    filled = [role for role in roles if "aggregationRule" in role]

    assert [role["metadata"]["name"] for role in filled] == ["penstock-inventory-reader"]
    assert all("rules" not in role for role in filled)
