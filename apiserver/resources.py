"""The served resources: one row per resource."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from apiserver.artifacts import resource as artifacts
from apiserver.inventories import resource as inventories
from apiserver.resource import Resource
from apiserver.watches import Watches
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A resource: its constructor, and the permissions that it needs."""

    make: Callable[[Manager, Options, Watches], Resource]
    permissions: tuple[Rule, ...]
    namespace_permissions: tuple[Rule, ...] = ()


RESOURCES: Final = (
    # Stored artifacts and their files.
    Row(
        make=artifacts.artifacts,
        permissions=artifacts.PERMISSIONS,
        namespace_permissions=artifacts.NAMESPACE_PERMISSIONS,
    ),
    # Applied objects and their health.
    Row(
        make=inventories.inventories,
        permissions=inventories.PERMISSIONS,
        namespace_permissions=inventories.NAMESPACE_PERMISSIONS,
    ),
)
