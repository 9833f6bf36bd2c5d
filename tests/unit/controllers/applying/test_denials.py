"""A refusal by RBAC tells which right is missing and how to give it."""

import pytest

from controllers.applying import denials
from toolkit.apply.changes import ApplyError, Failure
from toolkit.errors import TransientError
from toolkit.objects import GroupVersionKind, ObjectRef

USER = "system:serviceaccount:apps:deployer"
NAMESPACED = (
    f'configmaps "conf" is forbidden: User "{USER}" cannot patch resource "configmaps" in API group'
    ' "" in the namespace "shop"'
)
CLUSTER = (
    f'clusterroles.rbac.authorization.k8s.io is forbidden: User "{USER}" cannot create resource'
    ' "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope'
)
ESCALATION = (
    f'roles.rbac.authorization.k8s.io "r" is forbidden: user "{USER}" (groups=["a" "b"]) is'
    " attempting to grant RBAC permissions not currently held:\n"
    '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
)
RECORDS = (
    "the records of the release in Helm's storage: secrets is forbidden: User"
    f' "{USER}" cannot list resource "secrets" in API group "" in the namespace "apps": Helm keeps'
    " the records of a release in Secrets of its storage namespace: allow the account to get them"
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            NAMESPACED,
            (
                "bind a Role in namespace 'shop' with the verb 'patch' on 'configmaps' to service"
                " account 'apps/deployer'"
            ),
        ),
        (
            CLUSTER,
            (
                "bind a ClusterRole with the verb 'create' on 'clusterroles' of API group"
                " 'rbac.authorization.k8s.io' to service account 'apps/deployer'"
            ),
        ),
        (
            ESCALATION,
            (
                "give service account 'apps/deployer' these permissions first, or the verbs"
                " 'escalate' on roles and 'bind' on bindings"
            ),
        ),
        (
            NAMESPACED.replace(USER, "alice"),
            "bind a Role in namespace 'shop' with the verb 'patch' on 'configmaps' to user 'alice'",
        ),
        (RECORDS, ""),
        ('pods "web" is forbidden: violates PodSecurity "restricted:latest"', ""),
        ('pods "web" is forbidden: exceeded quota: small', ""),
    ],
)
def test_remedy_names_account_verb_resource_and_namespace(message: str, expected: str) -> None:
    assert denials.remedy(message) == expected


def test_each_right_is_named_once() -> None:
    other = NAMESPACED.replace("patch", "delete")

    told = denials.remedy(f"{NAMESPACED}\n{other}\n{NAMESPACED}")

    assert told.count("bind a Role") == 2
    assert told.count("'delete'") == 1


def test_message_is_explained_once() -> None:
    told = denials.explained(NAMESPACED)

    assert told.startswith(f"{NAMESPACED}: bind a Role")
    assert denials.explained(told) == told


@pytest.mark.parametrize("message", [NAMESPACED, CLUSTER, ESCALATION, RECORDS])
def test_error_gets_the_reason(message: str) -> None:
    with pytest.raises(TransientError) as caught, denials.explaining():
        raise TransientError(message, reason="ReconciliationFailed")

    assert caught.value.reason == "AccessDenied"
    assert str(caught.value).startswith(message)


def test_error_keeps_what_it_knows() -> None:
    ref = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), "shop", "conf")
    failure = Failure(ref=ref, step="dry-run", reason="Forbidden", message=NAMESPACED)

    with pytest.raises(ApplyError) as caught, denials.explaining():
        raise ApplyError([failure])

    assert caught.value.failures == (failure,)
    assert caught.value.reason == "AccessDenied"


def test_refusal_by_admission_keeps_its_reason() -> None:
    refused = 'pods "web" is forbidden: exceeded quota: small'

    with pytest.raises(TransientError) as caught, denials.explaining():
        raise TransientError(refused, reason="ReconciliationFailed")

    assert (caught.value.reason, str(caught.value)) == ("ReconciliationFailed", refused)
