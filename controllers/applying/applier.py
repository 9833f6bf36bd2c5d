"""What is read of an object that applies others, whatever its kind."""

from typing import Protocol

from crds.meta import KubeConfigReference, ObjectMeta
from toolkit.kube.reconciliation import Suspendable
from toolkit.objects import GroupVersionKind, ObjectRef


class Applying(Suspendable, Protocol):
    """How the spec says to apply."""

    @property
    def kube_config(self) -> KubeConfigReference | None:
        """Return the way to another cluster; None for the one that the object is in."""

    @property
    def service_account_name(self) -> str:
        """Return the account to act as; empty if the spec names none."""

    @property
    def timeout_seconds(self) -> float:
        """Return how long applying, and waiting for its end, may take."""


class Applier(Protocol):
    """An object that applies others."""

    @property
    def api_version(self) -> str:
        """Return the group and version that it was read in."""

    @property
    def kind(self) -> str:
        """Return its kind."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return namespace, name and the like."""

    @property
    def spec(self) -> Applying:
        """Return what is to be applied, and how."""


def ref_to(obj: Applier) -> ObjectRef:
    """Return the reference to an applier."""
    meta, gvk = obj.metadata, GroupVersionKind.parse(obj.api_version, obj.kind)
    return ObjectRef(gvk, meta.namespace, meta.name)
