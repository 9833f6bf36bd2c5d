"""Write the RBAC that the components declare: ``python -m controllers.rbac generate|check``.

Each component lists its rules beside its code (``PERMISSIONS``); this module only turns them into
ServiceAccounts, ClusterRoles, Roles and bindings. What is generated is all that a process may do.
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
    return base | {ON_DEMAND: _document(list(_workload_identity()))}


def _component(component: components.Component) -> Iterator[Json]:
    account = component.account
    yield rbac.service_account(account)
    yield from rbac.granted("ClusterRole", account, component.cluster_permissions)
    yield from rbac.granted("Role", account, component.namespace_permissions)


def _workload_identity() -> Iterator[Json]:
    """Yield what lets objects act as service accounts at clouds; the base does not grant it."""
    for component in map(components.load, components.NAMES):
        if component.workload_identity:
            account = component.account
            name = f"penstock-{account}-workload-identity"
            yield rbac.role("ClusterRole", name, component.workload_identity)
            yield rbac.binding("ClusterRole", name, account)


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
