"""Permissions of a process, declared with the code that needs them; manifests are generated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from toolkit.objects import Json

NAMESPACE: Final = "penstock-system"
"""The namespace of namespaced objects in manifests; installers may change it."""
_GROUP: Final = "rbac.authorization.k8s.io"

Kind = Literal["ClusterRole", "Role"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One RBAC rule; ``names`` narrows it to objects of these names."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def service_account(name: str) -> Json:
    """Return a ServiceAccount."""
    return manifest("v1", "ServiceAccount", name, namespaced=True)


def lease(name: str) -> tuple[Rule, ...]:
    """Return the permissions in the own namespace to hold the Lease of this name."""
    leases = (("coordination.k8s.io",), ("leases",))
    return (
        # A request to create names no object, so RBAC cannot narrow it by name.
        Rule(groups=leases[0], resources=leases[1], verbs=("create",)),
        Rule(groups=leases[0], resources=leases[1], verbs=("get", "update"), names=(name,)),
    )


def own_token(account: str) -> tuple[Rule, ...]:
    """Return the permissions in the own namespace to create tokens of the own account."""
    return (
        Rule(groups=("",), resources=("serviceaccounts",), verbs=("get",), names=(account,)),
        Rule(
            groups=("",), resources=("serviceaccounts/token",), verbs=("create",), names=(account,)
        ),
    )


def granted(kind: Kind, account: str, rules: Sequence[Rule], *, suffix: str = "") -> Iterator[Json]:
    """Yield a role with these rules and its binding to the account of the same name."""
    name = (f"penstock-{account}" if kind == "ClusterRole" else account) + suffix
    yield role(kind, name, rules)
    yield binding(kind, name, account)


def role(kind: Kind, name: str, rules: Sequence[Rule]) -> Json:
    """Return a ClusterRole, or a Role in the own namespace."""
    body = manifest(f"{_GROUP}/v1", kind, name, namespaced=kind == "Role")
    return body | {"rules": [_rule(rule) for rule in rules]}


def binding(kind: Kind, role: str, account: str) -> Json:
    """Return the binding of a role to a service account, under the role's name."""
    body = manifest(f"{_GROUP}/v1", f"{kind}Binding", role, namespaced=kind == "Role")
    return body | _bound(kind, role, account)


def elsewhere(role: str, account: str) -> Json:
    """Return the binding of a ClusterRole in one namespace, which its author names."""
    body = manifest(f"{_GROUP}/v1", "RoleBinding", role, namespaced=False)
    return body | _bound("ClusterRole", role, account)


def _bound(kind: Kind, role: str, account: str) -> Json:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    ref = {"apiGroup": _GROUP, "kind": kind, "name": role}
    return {"roleRef": ref, "subjects": [subject]}


def manifest(api_version: str, kind: str, name: str, *, namespaced: bool) -> Json:
    """Return the beginning of an object of Penstock, with the common labels."""
    labels = {"app.kubernetes.io/part-of": "penstock", "app.kubernetes.io/instance": NAMESPACE}
    metadata: Json = {"name": name, "labels": labels}
    if namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _rule(rule: Rule) -> Json:
    body: Json = {
        "apiGroups": list(rule.groups),
        "resources": list(rule.resources),
        "verbs": list(rule.verbs),
    }
    if rule.names:
        body["resourceNames"] = list(rule.names)
    return body
