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
from toolkit.kube.rbac import Rule
from toolkit.objects import Json

NAMESPACE: Final = "penstock-system"
DIRECTORY: Final = Path(__file__).parent.parent / "deploy" / "base" / "rbac"
HEADER: Final = "# Generated from the components' PERMISSIONS by `make generate`; do not edit.\n"


def render() -> dict[str, str]:
    """Return file name and content of everything generated."""
    files = {
        f"{component.account}.yaml": _document(_component(component))
        for component in components.COMPONENTS
    }
    files["kustomize-applier.yaml"] = _document(_applier())
    resources = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    files["kustomization.yaml"] = _document([resources | {"resources": sorted(files)}])
    return files


def _component(component: components.Component) -> Iterator[Json]:
    account = component.account
    yield _object("v1", "ServiceAccount", account, namespaced=True)
    yield from _granted("ClusterRole", account, component.cluster_permissions)
    yield from _granted("Role", account, component.namespace_permissions)


def _granted(kind: str, account: str, rules: Sequence[Rule]) -> Iterator[Json]:
    name = f"penstock-{account}" if kind == "ClusterRole" else account
    role = _object("rbac.authorization.k8s.io/v1", kind, name, namespaced=kind == "Role")
    yield role | {"rules": [_rule(rule) for rule in rules]}
    yield _binding(kind, name, account)


def _applier() -> Iterator[Json]:
    """Yield the account that applies Kustomizations which name none, with its default power.

    It is an administrator, as Flux's own controllers are, because platform manifests hold anything.
    The controller can only act as it by impersonation; removing the binding locks the cluster down
    to Kustomizations that name a service account.
    """
    yield _object("v1", "ServiceAccount", "kustomize-applier", namespaced=True)
    binding = _binding("ClusterRole", "cluster-admin", "kustomize-applier")
    binding["metadata"]["name"] = "penstock-kustomize-applier"
    yield binding


def _binding(kind: str, role: str, account: str) -> Json:
    binding = _object(
        "rbac.authorization.k8s.io/v1", f"{kind}Binding", role, namespaced=kind == "Role"
    )
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    return binding | {"roleRef": ref, "subjects": [subject]}


def _object(api_version: str, kind: str, name: str, *, namespaced: bool) -> Json:
    labels = {"app.kubernetes.io/part-of": "flux", "app.kubernetes.io/instance": NAMESPACE}
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


def _document(objects: Iterator[Json] | Sequence[Json]) -> str:
    return HEADER + yaml.safe_dump_all(list(objects), sort_keys=False)


def main(argv: Sequence[str]) -> int:
    """Write the files, or tell which differ."""
    files = render()
    if argv == ["generate"]:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (DIRECTORY / name).write_text(text)
        return 0
    if argv == ["check"]:
        on_disk = {path.name: path.read_text() for path in DIRECTORY.glob("*.yaml")}
        stale = sorted(name for name in files | on_disk if files.get(name) != on_disk.get(name))
        for name in stale:
            print(f"{DIRECTORY / name} is not what `make generate` writes", file=sys.stderr)  # noqa: T201 - a command prints
        return 1 if stale else 0
    print("usage: python -m controllers.rbac generate|check", file=sys.stderr)  # noqa: T201 - a command prints
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
