"""The RBAC and the APIService, as they are in ``deploy/base/apiserver``.

The process's permissions are those that the rows of ``RESOURCES`` need, and those of an aggregated
API server: to authenticate users and review their permissions (``system:auth-delegator``), and to
read which front proxies the API server trusts. Upstream's role for the latter is a Role in
kube-system, which installers that set a namespace would move too; so it is a ClusterRole that names
the one ConfigMap.

The roles for users aggregate to ``view`` and ``edit``, and through ``edit`` to ``admin``. Content
of artifacts and manifests may contain secrets, so it needs ``edit``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from apiserver import origin
from apiserver.auth.configuration import KEY
from apiserver.registration import API_SERVICE, NAME, Target, api_service
from apiserver.resources import RESOURCES
from apiserver.status import GROUP
from certs import keeper
from toolkit.kube import rbac
from toolkit.kube.rbac import Rule
from toolkit.objects import Json

DIRECTORY: Final = Path("deploy/base/apiserver")
READER: Final = "penstock-inventory-reader"
"""Its rules are those that the cluster aggregates into it, by label."""
AGGREGATE: Final = "gitops.penstock.dev/aggregate-to-inventory"
_TO_ROLE: Final = "rbac.authorization.k8s.io/aggregate-to-{}"
_DELEGATOR: Final = "system:auth-delegator"
_HEADER: Final = "# Generated from apiserver.resources.RESOURCES by `make generate`; do not edit.\n"
_READ: Final = "# Not to be applied: the process applies it, with its authority, once it serves.\n"

VIEW: Final = (
    Rule(groups=(GROUP,), resources=("artifacts", "inventories"), verbs=("get", "list", "watch")),
    Rule(
        groups=(GROUP,),
        resources=("artifacts/diff", "inventories/objects", "inventories/tree"),
        verbs=("get",),
    ),
)
EDIT: Final = (
    Rule(
        groups=(GROUP,),
        resources=(
            *("artifacts/content", "artifacts/files"),
            *("inventories/diff", "inventories/plan"),
        ),
        verbs=("get",),
    ),
    Rule(groups=(GROUP,), resources=("inventories/reconcile",), verbs=("create",)),
)
"""Beside ``VIEW``, which the cluster's role ``edit`` includes."""


def render() -> dict[str, str]:
    """Return name and content of the generated files."""
    registered = api_service(Target(namespace=rbac.NAMESPACE))
    return {
        "rbac.yaml": _HEADER + yaml.safe_dump_all(list(_rights()), sort_keys=False),
        "apiservice.yaml": _HEADER + _READ + yaml.safe_dump(registered, sort_keys=False),
    }


def permissions() -> tuple[Rule, ...]:
    """Return the cluster permissions of the process by its own role."""
    every = (*_PERMISSIONS, *(rule for row in RESOURCES for rule in row.permissions))
    return tuple(dict.fromkeys(every))


def namespace_permissions() -> tuple[Rule, ...]:
    """Return the permissions of the process in its own namespace."""
    every = (
        *_NAMESPACE_PERMISSIONS,
        *(rule for row in RESOURCES for rule in row.namespace_permissions),
    )
    return tuple(dict.fromkeys(every))


def _rights() -> Iterator[Json]:
    yield rbac.service_account(NAME)
    yield rbac.role("ClusterRole", NAME, permissions())
    yield rbac.binding("ClusterRole", NAME, NAME)
    yield rbac.role("Role", NAME, namespace_permissions())
    yield rbac.binding("Role", NAME, NAME)
    delegation = rbac.binding("ClusterRole", _DELEGATOR, NAME)
    delegation["metadata"]["name"] = f"{NAME}-auth-delegator"
    yield delegation
    yield _reader()
    yield rbac.binding("ClusterRole", READER, NAME)
    yield _for_people("view", VIEW)
    yield _for_people("edit", EDIT)


def _reader() -> Json:
    role = rbac.role("ClusterRole", READER, ())
    # Kubernetes sets the rules; applying them would empty them for a moment, or cause a conflict.
    del role["rules"]
    selectors = [{"matchLabels": {label: "true"}} for label in (_TO_ROLE.format("view"), AGGREGATE)]
    return role | {"aggregationRule": {"clusterRoleSelectors": selectors}}


def _for_people(name: str, rules: tuple[Rule, ...]) -> Json:
    role = rbac.role("ClusterRole", f"penstock-window-{name}", rules)
    role["metadata"]["labels"][_TO_ROLE.format(name)] = "true"
    return role


_PERMISSIONS: Final = (
    # Whom the API server trusts.
    Rule(
        groups=("",),
        resources=("configmaps",),
        verbs=("get", "list", "watch"),
        names=(KEY.name,),
    ),
    # Being registered, and the authority in it.
    Rule(groups=("apiregistration.k8s.io",), resources=("apiservices",), verbs=("list", "watch")),
    Rule(
        groups=("apiregistration.k8s.io",),
        resources=("apiservices",),
        verbs=("get", "create", "patch", "delete"),
        names=(API_SERVICE,),
    ),
    # The owner of the APIService: its deletion deletes the APIService.
    Rule(
        groups=("rbac.authorization.k8s.io",),
        resources=("clusterroles",),
        verbs=("get",),
        names=(NAME,),
    ),
    # Whether our namespace is being deleted.
    Rule(groups=("",), resources=("namespaces",), verbs=("get", "list", "watch")),
)
_NAMESPACE_PERMISSIONS: Final = (
    *keeper.permissions(NAME),
    *rbac.lease(NAME),
    # The write of a process when it starts.
    Rule(
        groups=("coordination.k8s.io",),
        resources=("leases",),
        verbs=("patch",),
        names=(origin.START,),
    ),
    Rule(groups=("",), resources=("services",), verbs=("get",), names=(NAME,)),
    Rule(groups=("discovery.k8s.io",), resources=("endpointslices",), verbs=("list",)),
)
