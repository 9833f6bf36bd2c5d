"""Generate the RBAC that the components declare: ``python -m controllers.rbac generate|check``.

Each component lists its rules beside its code (``PERMISSIONS``). This module only converts them
into ServiceAccounts, ClusterRoles, Roles and bindings. A process has no other rights.

The rights of a controller in the namespaces of its objects (``TENANT_PERMISSIONS``) are a separate
ClusterRole, because RBAC cannot exclude a namespace. The base binds it in all namespaces. The
component ``by-namespace`` binds it only in namespaces that ``deploy/tenant`` is applied to.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from controllers import components
from crds import written
from toolkit.kube import rbac
from toolkit.objects import Json
from toolkit.policy import claims

DIRECTORY: Final = Path("deploy")
BASE: Final = "base/rbac"
ON_DEMAND: Final = "components/workload-identity/rbac.yaml"
NARROW: Final = "components/by-namespace/rbac.yaml"
_SHARDED: Final = ("source", "kustomize", "helm", "image")
"""Components that divide their objects by a label."""
SHARD: Final = "components/sharding/shard1/rbac.yaml"
"""Rights to the Leases of a shard; the name of the shard is the suffix of its kustomization."""
TENANT: Final = "tenant/rbac.yaml"
_TENANTS: Final = "-tenants"
_CONTROLLERS: Final = {"Kustomization": "kustomize-controller", "HelmRelease": "helm-controller"}
HEADER: Final = "# Generated from the components' PERMISSIONS by `make generate`; do not edit.\n"


def render() -> dict[str, str]:
    """Return path below ``deploy/`` and content of everything generated."""
    files = {
        f"{component.account}.yaml": _document(_component(component))
        for component in map(components.load, components.NAMES)
    }
    files |= {f"{name}.yaml": _document(_applier(name)) for name in claims.ACCOUNTS.values()}
    resources = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    files["kustomization.yaml"] = _document([resources | {"resources": sorted(files)}])
    base = {f"{BASE}/{name}": text for name, text in files.items()}
    return base | {
        ON_DEMAND: _document(list(_workload_identity())),
        NARROW: _document(list(_own_appliers())),
        SHARD: _document(list(_shard("shard1"))),
        TENANT: _document(list(_in_one_namespace())),
    }


def _component(component: components.Component) -> Iterator[Json]:
    account = component.account
    yield rbac.service_account(account)
    yield from rbac.granted("ClusterRole", account, component.cluster_permissions)
    yield from rbac.granted("ClusterRole", account, component.tenant_permissions, suffix=_TENANTS)
    yield from rbac.granted("Role", account, component.namespace_permissions)
    if component.workload_identity:
        yield rbac.role("ClusterRole", _signing_in(component), component.workload_identity)


def _workload_identity() -> Iterator[Json]:
    """Yield the bindings that let objects act as service accounts; the base has none of them."""
    for component in map(components.load, components.NAMES):
        if component.workload_identity:
            yield rbac.binding("ClusterRole", _signing_in(component), component.account)


def _signing_in(component: components.Component) -> str:
    return f"penstock-{component.account}-workload-identity"


def _own_appliers() -> Iterator[Json]:
    """Yield the rights to impersonate the accounts of the installation, and no other accounts."""
    for kind, applier in claims.ACCOUNTS.items():
        impersonate = rbac.Rule(
            groups=("",), resources=("serviceaccounts",), verbs=("impersonate",), names=(applier,)
        )
        yield from rbac.granted("Role", _CONTROLLERS[kind], (impersonate,), suffix="-applier")


def _shard(name: str) -> Iterator[Json]:
    for component in map(components.load, _SHARDED):
        account = component.account
        lease = rbac.lease(f"{account}-{name}")
        yield from rbac.granted("Role", account, lease)


def _in_one_namespace() -> Iterator[Json]:
    """Yield the bindings of one tenant's namespace."""
    for component in map(components.load, components.NAMES):
        account = component.account
        yield rbac.elsewhere(f"penstock-{account}{_TENANTS}", account)


def _applier(account: str) -> Iterator[Json]:
    """Yield the account that acts for objects of a kind which name none, with its default power.

    It is an administrator, as Flux's own controllers are, because platform manifests hold anything.
    The controller can only act as it by impersonation; removing the binding locks the cluster down
    to objects that name a service account.
    """
    yield rbac.service_account(account)
    binding = rbac.binding("ClusterRole", "cluster-admin", account)
    binding["metadata"]["name"] = f"penstock-{account}"
    yield binding


def _document(objects: Iterator[Json] | Sequence[Json]) -> str:
    return HEADER + yaml.safe_dump_all(list(objects), sort_keys=False)


def main(argv: Sequence[str]) -> int:
    """Write the files, or tell which differ."""
    files = {DIRECTORY / name: text for name, text in render().items()}
    return written.main(argv, files, whole=(f"{DIRECTORY / BASE}/*.yaml",))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
