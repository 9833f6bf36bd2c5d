"""What the generated RBAC grants: what the components declare, and nothing more."""

import yaml

from controllers import rbac
from toolkit.objects import Json


def objects(account: str) -> list[Json]:
    return list(yaml.safe_load_all(rbac.render()[f"{account}.yaml"]))


def rules(account: str) -> list[Json]:
    return [rule for obj in objects(account) for rule in obj.get("rules", [])]


def test_no_controller_may_write_what_users_own() -> None:
    for account in ("source-controller", "kustomize-controller"):
        for rule in rules(account):
            writes = {"create", "update", "patch", "delete"} & set(rule["verbs"])
            if "*" in rule["resources"] or "*" in rule["apiGroups"]:
                assert not writes, rule


def test_no_controller_is_an_administrator() -> None:
    for account in ("source-controller", "kustomize-controller"):
        bindings = [obj for obj in objects(account) if obj["kind"].endswith("Binding")]

        assert {obj["roleRef"]["name"] for obj in bindings}.isdisjoint({"cluster-admin", "admin"})


def test_only_service_accounts_and_provenance_may_be_impersonated() -> None:
    impersonated = [
        rule for rule in rules("kustomize-controller") if "impersonate" in rule["verbs"]
    ]

    resources = {resource for rule in impersonated for resource in rule["resources"]}
    assert "users" not in resources
    assert "groups" not in resources
    assert {r for r in resources if "/" not in r} == {"serviceaccounts"}
    assert all(r.startswith("userextras/provenance.penstock.dev/") for r in resources if "/" in r)


def test_source_controller_may_not_impersonate_or_list_secrets() -> None:
    for rule in rules("source-controller"):
        assert "impersonate" not in rule["verbs"]
        if "secrets" in rule["resources"]:
            assert rule["verbs"] == ["get"]


def test_kustomization_lists_every_file() -> None:
    files = rbac.render()

    listed = yaml.safe_load(files["kustomization.yaml"])["resources"]
    assert sorted(listed) == sorted(set(files) - {"kustomization.yaml"})
