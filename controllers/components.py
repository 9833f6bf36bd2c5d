"""The components that ``python -m controllers --components=…`` can run, and their permissions.

A component is one Deployment with its own service account. Its RBAC rules are declared beside its
wiring, and ``controllers.rbac`` generates the RBAC objects from them: a process has no other
rights.
"""

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One deployable part: its name on the command line, its account, its rules, its wiring."""

    name: str
    account: str
    cluster_permissions: tuple[Rule, ...]
    namespace_permissions: tuple[Rule, ...]
    tenant_permissions: tuple[Rule, ...]
    """Rights in the namespaces whose objects it reconciles: all, or those with its RoleBinding."""
    workload_identity: tuple[Rule, ...]
    """Rights for ``serviceAccountName`` at clouds; granted only on demand."""
    start: Callable[[Manager, Options], Awaitable[None]]


NAMES: Final = (
    "source",  # fetches sources, stores and serves their artifacts
    "kustomize",  # builds and applies manifests from artifacts, and corrects drift
    "helm",  # releases their charts with values, and keeps them so
    "notification",  # sends events to services, and takes hooks
    "image",  # scans tags, chooses images, and writes them into Git
)
"""Each is a package below ``controllers``; its module ``component`` has the attributes of
Component.
"""


def load(name: str) -> Component:
    """Import a component: a process needs the modules of those alone that it runs."""
    module = importlib.import_module(f"controllers.{name}.component")
    return Component(
        name=name,
        account=module.ACCOUNT,
        cluster_permissions=module.CLUSTER_PERMISSIONS,
        namespace_permissions=module.NAMESPACE_PERMISSIONS,
        tenant_permissions=module.TENANT_PERMISSIONS,
        workload_identity=module.WORKLOAD_IDENTITY_PERMISSIONS,
        start=module.start,
    )
