"""What is served: one row per resource."""

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
    """A resource: how it is made, and what the process must be allowed for it."""

    make: Callable[[Manager, Options, Watches], Resource]
    permissions: tuple[Rule, ...]
    namespace_permissions: tuple[Rule, ...] = ()


RESOURCES: Final = (
    # What is stored, and what is in it.
    Row(
        make=artifacts.artifacts,
        permissions=artifacts.PERMISSIONS,
        namespace_permissions=artifacts.NAMESPACE_PERMISSIONS,
    ),
    # What was applied, and how it is.
    Row(
        make=inventories.inventories,
        permissions=inventories.PERMISSIONS,
        namespace_permissions=inventories.NAMESPACE_PERMISSIONS,
    ),
)
