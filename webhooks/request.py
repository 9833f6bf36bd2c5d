"""An admission request for plugins: decoded and typed.

Pure values. ``review`` makes them from an ``AdmissionReview``; nothing here does IO.
"""

from dataclasses import dataclass, field
from typing import Literal

from toolkit.kube.reviews import User
from toolkit.objects import GroupVersionKind, Json, ObjectRef
from toolkit.turns import Place, Unbounded

__all__ = ["Operation", "Request", "User"]

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One ``admission.k8s.io/v1 AdmissionRequest``.

    ``object`` is None on DELETE and ``old`` on CREATE; neither may be changed in place. ``gvk`` is
    the version that the objects are in, which is one that the plugin's rule names; ``asked`` is the
    version that the user wrote. ``deadline`` is in seconds of the running event loop's clock. A
    plugin leaves its ``place`` while it waits for a server that a user chose.
    The bodies stay out of ``repr``, because they may be Secrets.
    """

    uid: str
    operation: Operation
    gvk: GroupVersionKind
    asked: GroupVersionKind
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: User
    object: Json | None = field(default=None, repr=False)
    old: Json | None = field(default=None, repr=False)
    dry_run: bool = False
    options: Json = field(default_factory=dict, repr=False)
    deadline: float = float("inf")
    place: Place = field(default=Unbounded(), repr=False, compare=False)

    @property
    def ref(self) -> ObjectRef:
        """Return the reference to the object; the name is empty for ``generateName``."""
        return ObjectRef(self.gvk, self.namespace, self.name)
