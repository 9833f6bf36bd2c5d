"""``inventories``: the schema of the objects, and their descriptions for ``kubectl explain``.

The text below a field is its description. Nothing here computes anything.
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from crds import meta

Number = Annotated[int, Meta(ge=0)]


class ApplierReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names the object that applies; it is in the same namespace."""

    api_version: str
    """API version of the applier."""
    kind: str
    """Kind of the applier, e.g. Kustomization."""
    name: str
    """Name of the applier."""


class SourceReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names a source that the applier builds from."""

    kind: str
    """Kind of the source."""
    namespace: str
    """Namespace of the source."""
    name: str
    """Name of the source."""
    path: str = ""
    """Directory of the build tree that it appears under; empty for the root."""


class InventoryObject(meta.ApiStruct, frozen=True, kw_only=True):
    """One object of an inventory."""

    api_version: str
    """API version that it was applied with."""
    kind: str
    """Kind of the object."""
    namespace: str = ""
    """Namespace of the object; empty for a cluster-scoped one."""
    name: str
    """Name of the object."""
    revision: str = ""
    """Revision that was applied last, to this and all other objects of the inventory."""
    applied_at: meta.Timestamp = ""
    """When the applier last changed a field of the object. An apply that changes nothing leaves it
    as it is."""
    created_at: meta.Timestamp = ""
    """When the object was created."""
    observed: bool
    """Whether the object is observed. If it is not, message has the reason."""
    ready: bool
    """Whether the object is as its spec says (kstatus: Current)."""
    health: Literal["Current", "InProgress", "Failed", "Terminating", "NotFound", "Unknown"]
    """Health in the words of kstatus, or of the applier's health expressions."""
    message: str = ""
    """The reason for its health, or why it is not observed."""
    drift: Literal["", "Changed", "Missing", "Possible"] = ""
    """Changed: another manager took or removed a field that the applier had set. Missing: the
    object was deleted, or lost the labels of its owner. Possible: another manager wrote the object
    after the last apply, before this server observed it; the subresource diff shows whether an
    applied field was changed.
    """
    changed_by: list[str] = field(default_factory=list)
    """Field managers that made the change, if the object shows them."""
    reconcile_disabled: bool = False
    """Whether the object is marked to be ignored; its changes are then no drift."""
    owner: str = ""
    """Namespace and name of the applier that the object's labels name, where that is another."""


class InventorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """The applier of an inventory and its sources, copied from the applier."""

    applier_ref: ApplierReference
    """The object that applies."""
    source_ref: SourceReference | None = None
    """Source at the root of the build, or the first one where none is."""
    source_refs: list[SourceReference] = field(default_factory=list)
    """Further sources, each mounted at its path."""
    suspended: bool
    """Whether the applier is suspended; drift is then not corrected."""
    remote: bool
    """Whether the applier applies to another cluster, whose objects are not observed here."""


class InventoryStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """The observed state of the objects in an inventory."""

    ready: Literal["True", "False"]
    """True while the applier's Ready condition is True, all observed objects are current, and none
    has drifted."""
    message: str = ""
    """The first thing that keeps it from being ready."""
    revision: str = ""
    """Revision that was applied last."""
    attempted_revision: str = ""
    """Revision that the last attempt worked on."""
    objects: Number
    """Number of objects in the inventory."""
    observed: Number
    """Number of observed objects."""
    unobserved: Number
    """Number of objects that are not observed: their kinds may not be watched, or they are on
    another cluster.
    """
    current: Number
    """Number of observed objects that are as their specs say."""
    failed: Number
    """Number of failed objects."""
    drifted: Number
    """Number of objects that were changed or deleted since the last apply."""
    missing: Number
    """Number of these that do not exist."""
    foreign: Number
    """Number of objects with the labels of another applier."""
    conditions: meta.Conditions = field(default_factory=list)
    """The applier's conditions, with shortened messages."""
    problems: list[InventoryObject] = field(default_factory=list)
    """The first ten objects that are not observed, not current, or have drifted. The subresource
    objects lists all."""


class Inventory(meta.ApiStruct, frozen=True, kw_only=True):
    """The objects that one applier has applied, their health, and their drift.

    Inventories are views: they cannot be written, and losing them loses nothing.
    """

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "Inventory"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: InventorySpec
    """Whose inventory it is, and what that is made from."""
    status: InventoryStatus
    """The health of the applied objects."""


class InventoryObjects(meta.ApiStruct, frozen=True, kw_only=True):
    """All objects of an inventory, in the order in which the applier lists them."""

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "InventoryObjects"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    objects: list[InventoryObject] = field(default_factory=list)
    """The objects."""


class TreeNode(meta.ApiStruct, frozen=True, kw_only=True):
    """An object and the objects that it owns."""

    api_version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    namespace: str = ""
    """Namespace of the object."""
    name: str
    """Name of the object."""
    health: str = ""
    """Health in the words of kstatus."""
    message: str = ""
    """The reason for its health."""
    unread: str = ""
    """Why the owned objects could not be read, or not all of them."""
    children: list[meta.Json] = field(default_factory=list)
    """Objects that name this one as their owner, each with the same fields as this one."""


class InventoryTree(meta.ApiStruct, frozen=True, kw_only=True):
    """The applied objects and those that they own: ReplicaSets, Pods, EndpointSlices and Jobs."""

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "InventoryTree"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    objects: list[TreeNode] = field(default_factory=list)
    """The applied objects."""


class Difference(meta.ApiStruct, frozen=True, kw_only=True):
    """One field that would change."""

    action: Literal["added", "changed", "removed"]
    """What would happen to the field."""
    path: str
    """Path of the field, e.g. spec.template.spec.containers[name=web].image."""
    before: str = ""
    """The value now, as JSON; long ones are cut, and those of Secrets masked."""
    after: str = ""
    """The value then, likewise."""


class PlannedChange(meta.ApiStruct, frozen=True, kw_only=True):
    """What a reconciliation would do to one object."""

    api_version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    namespace: str = ""
    """Namespace of the object."""
    name: str
    """Name of the object."""
    action: Literal["created", "drifted", "recreated", "deleted", "refused"]
    """What would happen to the object; refused: the API server would not accept it."""
    message: str = ""
    """Why it would be refused."""
    differences: list[Difference] = field(default_factory=list)
    """The fields that would change; empty for objects that come or go as a whole."""


class PlannedHook(meta.ApiStruct, frozen=True, kw_only=True):
    """A hook of a chart that would run; making a plan runs none."""

    kind: str
    """Kind of the hook."""
    name: str
    """Name of the hook."""
    events: list[str]
    """When it runs, e.g. pre-upgrade."""


class InventoryPlan(meta.ApiStruct, frozen=True, kw_only=True):
    """What a reconciliation of one revision would change now, computed by a dry-run.

    For a HelmRelease, this is what an install or an upgrade would change, even if none is due.
    """

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "InventoryPlan"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    revision: str
    """Revision that was built."""
    unchanged: Number
    """Number of objects that would stay unchanged."""
    changes: list[PlannedChange] = field(default_factory=list)
    """Changes in the order of the build, deletions last."""
    hooks: list[PlannedHook] = field(default_factory=list)
    """Hooks that would run too; their effects are unknown."""


class InventoryReconcile(meta.ApiStruct, frozen=True, kw_only=True):
    """Requests a reconciliation now; the answer has what was requested."""

    api_version: str = "gitops.penstock.dev/v1alpha1"
    kind: str = "InventoryReconcile"
    with_source: bool = False
    """Reconcile the sources as well, first of all."""
    force: bool = False
    """Reconcile even what failed for good (reconcile.fluxcd.io/forceAt)."""
    reset: bool = False
    """Forget earlier failures (reconcile.fluxcd.io/resetAt)."""
    requested_at: str = ""
    """Stamp of the request: done once the applier's status.lastHandledReconcileAt equals it."""
    applier_ref: ApplierReference | None = None
    """The object that was asked."""
