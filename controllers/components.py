"""The components that ``python -m controllers --components=…`` can run, and what each may do.

A component is one Deployment with its own service account. Its rules stand beside its wiring, and
``controllers.rbac`` writes the RBAC from them: what is not listed here, the process cannot do.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from controllers.kustomize import component as kustomize_component
from controllers.source import component as source_component
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
    start: Callable[[Manager, Options], Awaitable[None]]
    workload_identity: tuple[Rule, ...] = ()
    """What it needs for ``serviceAccountName`` at clouds, granted only on demand."""


COMPONENTS: Final = (
    # Fetches sources, stores and serves their artifacts.
    Component(
        name="source",
        account=source_component.ACCOUNT,
        cluster_permissions=source_component.CLUSTER_PERMISSIONS,
        namespace_permissions=source_component.NAMESPACE_PERMISSIONS,
        start=source_component.start,
        workload_identity=source_component.WORKLOAD_IDENTITY_PERMISSIONS,
    ),
    # Builds, applies and keeps what the artifacts describe.
    Component(
        name="kustomize",
        account=kustomize_component.ACCOUNT,
        cluster_permissions=kustomize_component.CLUSTER_PERMISSIONS,
        namespace_permissions=kustomize_component.NAMESPACE_PERMISSIONS,
        start=kustomize_component.start,
    ),
)
