"""Nothing is written when anything is refused, and every refusal is told."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.errors import ControlPlaneError
from toolkit.apply.changes import ApplyError
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind

Kubectl = Callable[..., str]


def _absent(cluster: Any, *what: str) -> bool:
    with pytest.raises(ControlPlaneError, match="NotFound"):
        cluster("get", *what)
    return True


async def test_all_refusals_are_reported_and_nothing_is_written(
    apply: Any, make: Any, cluster: Any
) -> None:
    bad_name = make.config_map("Bad_Name")
    bad_field = {**make.service(), "spec": {"ports": "none"}}
    unserved = make("example.com/v1", "Widget", "w")
    elsewhere = {**make.config_map(), "metadata": {"name": "x", "namespace": "no-such-namespace"}}

    with pytest.raises(ApplyError) as caught:
        await apply(make.config_map("good"), bad_name, bad_field, unserved, elsewhere)

    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "ConfigMap/no-such-namespace/x dry-run failed (NotFound)",
        f"ConfigMap/{make.namespace}/Bad_Name dry-run failed (Invalid)",
        f"Service/{make.namespace}/web dry-run failed",
        f"Widget/{make.namespace}/w dry-run failed",
    ]
    assert caught.value.changes.entries == ()
    assert caught.value.reason == "ReconciliationFailed"
    assert _absent(cluster, "configmap", "good")


async def test_an_object_without_a_namespace_is_refused_before_any_request(
    apply: Any, make: Any, wire: Any
) -> None:
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lost"}}

    with pytest.raises(ApplyError, match="namespace not specified"):
        await apply(make.config_map(), lost)

    assert wire.sent == []


async def test_the_same_object_twice_is_refused(apply: Any, make: Any) -> None:
    with pytest.raises(ApplyError, match="defined twice"):
        await apply(make.config_map(a="1"), make.config_map(a="2"))


async def test_a_namespace_on_a_cluster_scoped_object_is_dropped(
    apply: Any, make: Any, kubectl: Kubectl
) -> None:
    role = make("rbac.authorization.k8s.io/v1", "ClusterRole", make.namespace, rules=[])

    changes = await apply(role)

    assert str(changes.refs[0]) == f"ClusterRole/{make.namespace}"
    kubectl("delete", "clusterrole", make.namespace)


async def test_a_forbidden_apply_says_who_may_not_do_what(
    apply: Any, make: Any, api: Client
) -> None:
    user = f"system:serviceaccount:{make.namespace}:tenant"

    with pytest.raises(ApplyError) as caught:
        await apply(make.config_map(), make.deployment(), as_=api.impersonating(user))

    first, second = str(caught.value).splitlines()
    assert first.startswith(f"ConfigMap/{make.namespace}/conf dry-run failed (Forbidden): ")
    assert f'User "{user}" cannot patch resource "configmaps" in API group ""' in first
    assert f'in the namespace "{make.namespace}"' in first
    assert 'cannot patch resource "deployments" in API group "apps"' in second


async def test_the_values_of_a_secret_are_never_told(apply: Any, make: Any) -> None:
    typed = {**make.secret("typed", token="hunter2hunter2"), "type": "Opaque"}
    await apply(typed)
    broken = {**make.secret("broken"), "data": {"password": "hunter2-is-not-base64"}}
    bad_label = make("v1", "Secret", "label", metadata={"labels": {"a": "hunter2 hunter2"}})

    with pytest.raises(ApplyError) as caught:
        await apply({**typed, "type": "other"}, broken, bad_label)

    message = str(caught.value)
    assert "hunter2" not in message
    assert "Secret/" in message
    assert "field is immutable" in message
    assert len(message.splitlines()) == 3


async def test_no_answer_is_not_blamed_on_the_objects(
    apply: Any, make: Any, api: Client, wire: Any
) -> None:
    await api.mapper.resource(GroupVersionKind("", "v1", "ConfigMap"))
    wire.server = "https://127.0.0.1:1"

    with pytest.raises(errors.UnreachableError):
        await apply(make.config_map("one"), make.config_map("two"))


async def test_a_write_that_fails_tells_what_was_written_before(
    apply: Any, make: Any, kubectl: Kubectl
) -> None:
    # a policy that lets dry-runs pass and refuses the write: nothing can foresee that
    name = f"refuse-{make.namespace}"
    kubectl("apply", "-f", "-", stdin=_POLICY.format(name=name, namespace=make.namespace))
    try:
        await _refused(apply, make)

        with pytest.raises(ApplyError) as caught:
            await apply(make.account(), make.config_map("refused"))
    finally:
        kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", name)

    assert "ConfigMap" in str(caught.value)
    assert "apply failed" in str(caught.value)
    assert [str(entry) for entry in caught.value.changes.entries] == [
        f"ServiceAccount/{make.namespace}/web created"
    ]
    assert caught.value.changes.known.keys() == {("", "ServiceAccount", make.namespace, "web")}


_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}
  validations:
  - expression: request.dryRun || !object.metadata.name.startsWith('refused')
    message: not today
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec:
  policyName: {name}
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
"""


async def _refused(apply: Any, make: Any) -> None:
    """Wait until the policy is in force."""
    for attempt in range(100):
        try:
            await apply(make.config_map(f"refused-{attempt}"))
        except ApplyError:
            return
        await asyncio.sleep(0.1)
    pytest.fail("the policy never came into force")
