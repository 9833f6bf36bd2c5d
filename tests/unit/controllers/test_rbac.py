"""What the generated RBAC grants: what the components declare, and nothing more."""

import pytest
import yaml

from controllers import rbac
from toolkit.objects import Json

LENT = ("source-controller", "kustomize-controller", "helm-controller", "image-controller")
"""Those that act as accounts of others."""
ACCOUNTS = (*LENT, "notification-controller")


def objects(account: str) -> list[Json]:
    return list(yaml.safe_load_all(rbac.render()[f"{rbac.BASE}/{account}.yaml"]))


def rules(account: str) -> list[Json]:
    return [rule for obj in objects(account) for rule in obj.get("rules", [])]


def test_no_controller_may_write_what_users_own() -> None:
    for account in ACCOUNTS:
        for rule in rules(account):
            writes = {"create", "update", "patch", "delete"} & set(rule["verbs"])
            if "*" in rule["resources"] or "*" in rule["apiGroups"]:
                assert not writes, rule


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_controller_reaches_into_pods_by_a_wildcard(account: str) -> None:
    for rule in rules(account):
        if "*" in rule["resources"]:
            assert set(rule["verbs"]) <= {"list", "watch"}, "`get` of `*` includes nodes/proxy"


def test_no_controller_is_an_administrator() -> None:
    for account in ACCOUNTS:
        bindings = [obj for obj in objects(account) if obj["kind"].endswith("Binding")]

        assert {obj["roleRef"]["name"] for obj in bindings}.isdisjoint({"cluster-admin", "admin"})


@pytest.mark.parametrize("account", ["kustomize-controller", "helm-controller"])
def test_only_service_accounts_and_provenance_may_be_impersonated(account: str) -> None:
    impersonated = [rule for rule in rules(account) if "impersonate" in rule["verbs"]]

    resources = {resource for rule in impersonated for resource in rule["resources"]}
    assert "users" not in resources
    assert "groups" not in resources
    assert {r for r in resources if "/" not in r} == {"serviceaccounts"}
    assert all(r.startswith("userextras/provenance.penstock.dev/") for r in resources if "/" in r)


@pytest.mark.parametrize(
    "account", ["source-controller", "image-controller", "notification-controller"]
)
def test_who_applies_nothing_may_not_impersonate_or_list_secrets(account: str) -> None:
    for rule in rules(account):
        assert "impersonate" not in rule["verbs"]
        if "secrets" in rule["resources"]:
            assert rule["verbs"] == ["get"]


def test_kustomization_lists_every_file() -> None:
    base = [name for name in rbac.render() if name.startswith(rbac.BASE)]

    listed = yaml.safe_load(rbac.render()[f"{rbac.BASE}/kustomization.yaml"])["resources"]
    assert sorted(f"{rbac.BASE}/{name}" for name in [*listed, "kustomization.yaml"]) == sorted(base)


def test_tokens_of_accounts_are_made_only_where_that_is_asked_for() -> None:
    for account in LENT:
        found = objects(account)
        bound = {obj["roleRef"]["name"] for obj in found if obj["kind"].endswith("Binding")}
        makers = [
            (role["metadata"]["name"], rule.get("resourceNames"))
            for role in found
            for rule in role.get("rules", ())
            if "serviceaccounts/token" in rule["resources"]
        ]

        assert (f"penstock-{account}-workload-identity", None) in makers
        assert all(own == [account] for name, own in makers if name in bound)
        assert f"name: penstock-{account}-workload-identity" in rbac.render()[rbac.ON_DEMAND]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_lease_of_others_is_not_written(account: str) -> None:
    leases = [rule for rule in rules(account) if rule["resources"] == ["leases"]]

    assert [rule["verbs"] for rule in leases] == [["create"], ["get", "update"]]
    assert leases[1]["resourceNames"] == [account]


@pytest.mark.parametrize("account", LENT)
def test_namespaces_of_tenants_are_entered_by_one_role(account: str) -> None:
    by_namespace = yaml.safe_load_all(rbac.render()[rbac.TENANT])
    fetches = account in {"source-controller", "image-controller"}
    verb = "get" if fetches else "impersonate"
    roles = [
        obj["metadata"]["name"]
        for obj in objects(account)
        if obj["kind"] == "ClusterRole"
        for rule in obj["rules"]
        if "serviceaccounts" in rule["resources"] and verb in rule["verbs"]
    ]

    assert roles == [f"penstock-{account}-tenants"]
    (bound,) = [b for b in by_namespace if b["subjects"][0]["name"] == account]
    assert bound["kind"] == "RoleBinding"
    assert bound["roleRef"]["name"] == roles[0]
    assert "namespace" not in bound["metadata"]
