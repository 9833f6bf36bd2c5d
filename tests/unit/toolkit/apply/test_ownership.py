"""What is put on an object before it is applied, and what its marks forbid."""

import base64
from typing import Any

import pytest

from toolkit.apply import ownership
from toolkit.apply.ownership import Owner
from toolkit.objects import Json, ObjectKey, dig

OWNER = Owner(namespace="shop", name="app")
LABELS = {
    "kustomize.toolkit.fluxcd.io/name": "app",
    "kustomize.toolkit.fluxcd.io/namespace": "shop",
}


def _config(**metadata: object) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", **metadata}}


def test_owner_labels_win_over_common_metadata_and_that_over_the_manifest() -> None:
    thief = {"kustomize.toolkit.fluxcd.io/name": "thief", "team": "common"}
    obj = _config(labels={"team": "own", "tier": "web"}, annotations={"note": "own"})

    owned = ownership.own(obj, OWNER, labels=thief, annotations={"note": "common"})

    assert dig(owned, "metadata", "labels") == {"team": "common", "tier": "web", **LABELS}
    assert dig(owned, "metadata", "annotations") == {"note": "common"}


def test_what_only_the_server_sets_is_dropped() -> None:
    notes = {ownership.LAST_APPLIED: "{}"}
    obj = _config(uid="u", resourceVersion="1", managedFields=[], annotations=notes)

    owned = ownership.own({**obj, "status": {"phase": "x"}}, OWNER)

    assert owned["metadata"] == {"name": "conf", "labels": LABELS}
    assert "status" not in owned


def test_the_manifest_is_not_changed_in_place() -> None:
    obj = _config(labels={"a": "1"})

    ownership.own(obj, OWNER, labels={"b": "2"})

    assert obj == _config(labels={"a": "1"})


def test_plain_text_of_a_secret_wins_over_its_data() -> None:
    secret = {**_config(), "kind": "Secret", "data": {"a": "eA=="}, "stringData": {"a": "y"}}

    owned = ownership.own(secret, OWNER)

    assert owned["data"] == {"a": base64.b64encode(b"y").decode()}
    assert "stringData" not in owned


def test_plain_text_that_is_null_is_empty() -> None:
    secret = {**_config(), "kind": "Secret", "stringData": {"a": None, "b": "null"}}

    owned = ownership.own(secret, OWNER)

    assert owned["data"] == {"a": "", "b": base64.b64encode(b"null").decode()}


def test_plain_text_of_other_kinds_stays() -> None:
    other = {**_config(), "apiVersion": "example.com/v1", "kind": "Secret", "stringData": {}}

    assert "stringData" in ownership.own(other, OWNER)


RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
SELECTED = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


@pytest.mark.parametrize("rules", [[], None, RULES])
@pytest.mark.parametrize("aggregation", [SELECTED, {}])
def test_aggregated_rules_are_left_to_the_control_plane(rules: Any, aggregation: Any) -> None:
    role = _role(rules=rules, aggregationRule=aggregation)

    assert "rules" not in ownership.ceded(role)
    assert ownership.ceded(role)["aggregationRule"] == aggregation


@pytest.mark.parametrize(
    "obj",
    [
        {"rules": RULES},
        {"rules": RULES, "aggregationRule": None},
        {"rules": RULES, "aggregationRule": SELECTED, "kind": "Role"},
        {"rules": RULES, "aggregationRule": SELECTED, "apiVersion": "example.com/v1"},
    ],
)
def test_other_rules_are_applied(obj: Any) -> None:
    role = _role(**obj)

    assert ownership.ceded(role) is role


def _role(**fields: Any) -> Any:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", **fields}


def test_ownership_needs_both_labels() -> None:
    named = _config(labels={"kustomize.toolkit.fluxcd.io/name": "app"})

    assert not OWNER.owns(named)
    assert OWNER.owns(_config(labels=LABELS))
    assert ownership.owner_of(_config(labels=LABELS)) == ObjectKey("shop", "app")


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("value", ["disabled", "Disabled", "DISABLED"])
def test_marks_are_read_in_any_case_from_labels_and_annotations(place: str, value: str) -> None:
    obj = _config(**{place: {"kustomize.toolkit.fluxcd.io/reconcile": value}})

    assert ownership.hands_off(obj, OWNER)
    assert not ownership.prunable(obj, OWNER)


def test_prune_disabled_protects_from_deletion_only() -> None:
    obj = _config(annotations={"kustomize.toolkit.fluxcd.io/prune": "disabled"})

    assert not ownership.hands_off(obj, OWNER)
    assert not ownership.prunable(obj, OWNER)


def test_marks_of_another_group_are_not_ours() -> None:
    obj = _config(annotations={"helm.toolkit.fluxcd.io/reconcile": "disabled"})

    assert not ownership.hands_off(obj, OWNER)
