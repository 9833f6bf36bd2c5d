"""Objects whose definitions come in the same set."""

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.errors import ControlPlaneError
from tests.tools import rights
from tests.tools.widgets import sized
from toolkit.apply.changes import ApplyError


@pytest.fixture
def group(namespace: str, kubectl: Any) -> Iterator[str]:
    name = f"{namespace}.example.com"
    yield name
    kubectl("delete", "crd", f"widgets.{name}", "--ignore-not-found", "--wait=false")


def _kinds(changes: Any) -> list[str]:
    return [entry.ref.gvk.kind for entry in changes.entries]


async def test_a_crd_and_its_object_in_one_set(apply: Any, make: Any, group: str) -> None:
    widget = make(f"{group}/v1", "Widget", "one", spec={"size": 1})

    changes = await apply(widget, make.config_map(), sized(group))

    assert _kinds(changes) == ["CustomResourceDefinition", "ConfigMap", "Widget"]
    assert {entry.action for entry in changes.entries} == {"created"}


async def test_a_changed_crd_and_an_object_of_the_new_schema(
    apply: Any, make: Any, group: str
) -> None:
    await apply(sized(group), make(f"{group}/v1", "Widget", "one", spec={"size": 1}))
    richer = make(f"{group}/v1", "Widget", "one", spec={"size": 1, "colour": "red"})

    changes = await apply(sized(group, colour={"type": "string"}), richer)

    assert [entry.action for entry in changes.entries] == ["configured", "configured"]


async def test_a_bad_object_of_a_new_kind_stops_its_stage(
    apply: Any, make: Any, group: str, cluster: Any
) -> None:
    bad = make(f"{group}/v1", "Widget", "bad", spec={"size": "large"})

    with pytest.raises(ApplyError, match=f"Widget/{make.namespace}/bad dry-run failed") as caught:
        await apply(bad, make.config_map(), sized(group))

    assert _kinds(caught.value.changes) == ["CustomResourceDefinition"]
    with pytest.raises(ControlPlaneError, match="NotFound"):
        cluster("get", "configmap", "conf")


async def test_a_bad_object_elsewhere_keeps_the_crd_out(
    apply: Any, make: Any, group: str, kubectl: Any
) -> None:
    with pytest.raises(ApplyError, match="Bad_Name"):
        await apply(sized(group), make.config_map("Bad_Name"))

    with pytest.raises(ControlPlaneError, match="NotFound"):
        kubectl("get", "crd", f"widgets.{group}")


async def test_a_namespace_and_what_is_in_it(
    apply: Any, make: Any, kubectl: Any, wire: Any
) -> None:
    inner = f"{make.namespace}-inner"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}}
    make.namespace = inner
    try:
        changes = await apply(make.deployment(), make.config_map(), space)
    finally:
        kubectl("delete", "namespace", inner, "--wait=false", "--ignore-not-found")

    assert _kinds(changes) == ["Namespace", "ConfigMap", "Deployment"]
    # a new make.namespace is ready when it is made: nothing is asked twice or in vain
    assert sorted(wire.sent) == ["PATCH"] * 3 + ["PATCH dry"] * 3


async def test_a_role_and_its_binding_by_an_account_that_may_bind_only_what_exists(
    apply: Any, make: Any, api: Any, kubectl: Any
) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    rbac = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": make.namespace},
        "rules": rules,
    }
    binding = make(
        f"{rbac}/v1",
        "RoleBinding",
        "bind",
        roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": make.namespace},
        subjects=[{"kind": "ServiceAccount", "name": "x", "namespace": make.namespace}],
    )
    user = f"{make.namespace}-installer"
    kubectl("apply", "-f", "-", stdin=_INSTALLER.format(name=user))
    installing = {"apiGroups": [rbac], "resources": ["clusterroles", "rolebindings"]}
    await rights.noticed(api, user, {**installing, "verbs": ["patch"]}, *rules)
    try:
        changes = await apply(binding, role, as_=api.impersonating(user))
    finally:
        kubectl("delete", "clusterrole,clusterrolebinding", user)
        kubectl("delete", "clusterrole", make.namespace, "--ignore-not-found")

    assert _kinds(changes) == ["ClusterRole", "RoleBinding"]


_INSTALLER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {name}}}
rules:
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles, rolebindings]
  verbs: [get, create, patch]
- {{apiGroups: [""], resources: [configmaps], verbs: [get]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {name}}}]
"""
