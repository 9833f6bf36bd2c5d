"""The fields that all kinds of appliers, which are objects that apply others, have in common."""

from typing import Protocol

from crds.meta import KubeConfigReference, ObjectMeta
from toolkit.kube.reconciliation import Suspendable
from toolkit.objects import GroupVersionKind, ObjectRef


class Applying(Suspendable, Protocol):
    """The fields of a spec that say how to apply objects."""

    @property
    def kube_config(self) -> KubeConfigReference | None:
        """Return the reference to the kubeconfig of another cluster; None for the own cluster."""

    @property
    def service_account_name(self) -> str:
        """Return the service account to act as; empty if the spec names none."""

    @property
    def timeout_seconds(self) -> float:
        """Return how long the apply and the wait for health may take together."""


class Applier(Protocol):
    """An object that applies others."""

    @property
    def api_version(self) -> str:
        """Return the group and version in which the object was read."""

    @property
    def kind(self) -> str:
        """Return the kind."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return the metadata."""

    @property
    def spec(self) -> Applying:
        """Return the spec."""


def ref_to(obj: Applier) -> ObjectRef:
    """Return the reference to an applier."""
    meta, gvk = obj.metadata, GroupVersionKind.parse(obj.api_version, obj.kind)
    return ObjectRef(gvk, meta.namespace, meta.name)
