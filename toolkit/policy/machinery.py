"""Writes of the cluster itself that need no provenance. Pure.

For example, controllers write ReplicaSets and Pods for a Deployment, and these are in no
repository. Each row of ``EXEMPTIONS`` is one such write: the user, the object, and a fact about the
object which proves that the write follows from an admitted object. Only users who may do anything
in the cluster can get a name that begins with ``system:``. The conditions in the webhook's
configuration, which the API server evaluates itself, cover writes that must also succeed while no
webhook answers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from toolkit.objects import GroupVersionKind, Json
from toolkit.policy.attempts import Attempt, controller_of

Fact = Callable[[Attempt], bool]

ANYTHING: Final = frozenset({"*"})
ANYBODY: Final = frozenset({"*"})
NODES: Final = frozenset({"group:system:nodes"})
ACCOUNTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "source-controller": "source-controller",
        "source-watcher": "source-controller",
        "kustomize-controller": "kustomize-controller",
        "helm-controller": "helm-controller",
        "notification-controller": "notification-controller",
        "image-reflector-controller": "image-controller",
        "image-automation-controller": "image-controller",
    }
)
"""The service account in the install namespace that reconciles the kinds of a component."""
PENSTOCK: Final = frozenset(f"penstock:{name}" for name in sorted(set(ACCOUNTS.values())))
"""The service accounts of our controllers."""
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
"""Stands for all of its controllers where they have no accounts of their own."""
SCHEDULER: Final = "system:kube-scheduler"
API_SERVER: Final = frozenset({"system:apiserver"})
_OF_CONTROLLERS: Final = (
    # kubernetes/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go
    "attachdetach-controller certificate-controller cloud-controller-manager cronjob-controller "
    "daemon-set-controller deployment-controller device-taint-eviction-controller "
    "disruption-controller endpoint-controller endpointslice-controller "
    "endpointslicemirroring-controller ephemeral-volume-controller expand-controller "
    "generic-garbage-collector horizontal-pod-autoscaler job-controller "
    "legacy-service-account-token-cleaner namespace-controller node-controller "
    "persistent-volume-binder pod-garbage-collector pv-protection-controller "
    "pvc-protection-controller replicaset-controller replication-controller "
    "resource-claim-controller resourcequota-controller root-ca-cert-publisher "
    "service-account-controller service-controller statefulset-controller "
    "storage-version-migrator-controller ttl-after-finished-controller ttl-controller "
    "volumeattributesclass-protection-controller"
)


def _accounts(names: str) -> frozenset[str]:
    own = {f"system:serviceaccount:kube-system:{name}" for name in names.split()}
    return frozenset(own | {CONTROLLER_MANAGER})


def _controlled(attempt: Attempt) -> bool:
    return controller_of(attempt.object or attempt.old) is not None


def _owned(attempt: Attempt) -> bool:
    return bool(_metadata(attempt.old).get("ownerReferences"))


def _mirrored(attempt: Attempt) -> bool:
    """Tell whether a Pod is the mirror of a static Pod, which a node runs from a local file."""
    return "kubernetes.io/config.mirror" in _notes(attempt.object or attempt.old)


def _token(attempt: Attempt) -> bool:
    secret = attempt.object or attempt.old or {}
    return secret.get("type") == "kubernetes.io/service-account-token"


def _root_ca(attempt: Attempt) -> bool:
    return attempt.ref.name == "kube-root-ca.crt"


def _default_account(attempt: Attempt) -> bool:
    return attempt.ref.name == "default"


def _idle(attempt: Attempt) -> bool:
    """Tell whether the write changes nothing, not even the managers of fields."""
    return _same(attempt, ignored={"resourceVersion", "generation"})


def _asks_for_a_reconcile(attempt: Attempt) -> bool:
    """Tell whether the write only changes annotations that request a reconciliation."""
    before, after = (
        {key: value for key, value in _notes(obj).items() if key in _REQUESTS}
        for obj in (attempt.old, attempt.object)
    )
    return before != after and _same(attempt, notes=_REQUESTS) and _owned_alike(attempt)


def _finalizers(attempt: Attempt) -> bool:
    return _same(attempt, ignored=_SERVER_SET | {"finalizers"})


def _owned_alike(attempt: Attempt) -> bool:
    """Tell whether all other fields keep their managers.

    A user who also owns a field keeps it in the object when it is removed from the repository. A
    user who clears ``managedFields`` makes all fields stay (``before-first-apply``).
    """
    before, after = (_owners(_metadata(obj)) for obj in (attempt.old, attempt.object))
    return before == after


def _owners(metadata: Json) -> list[tuple[Any, ...]]:
    """Return the managers of fields, and which ones, without those by which people ask."""
    found = []
    for entry in metadata.get("managedFields") or ():
        fields = _without_requests(entry.get("fieldsV1") or {})
        if fields:
            manager = tuple(entry.get(key) for key in _MANAGER)
            found.append((*manager, fields))
    return sorted(found, key=repr)


def _without_requests(fields: Json) -> Json:
    """Return owned fields (``FieldsV1``) without those annotations, and what only leads there."""
    metadata = fields.get("f:metadata") or {}
    asking = {".", *(f"f:{name}" for name in _REQUESTS)}
    notes = {k: v for k, v in (metadata.get("f:annotations") or {}).items() if k not in asking}
    rest = {key: value for key, value in metadata.items() if key != "f:annotations"}
    kept = rest | ({"f:annotations": notes} if notes else {})
    others = {key: value for key, value in fields.items() if key != "f:metadata"}
    return others | ({"f:metadata": kept} if kept else {})


_MANAGER: Final = ("manager", "operation", "apiVersion", "subresource")
_SERVER_SET: Final = frozenset({"resourceVersion", "generation", "managedFields"})
_REQUESTS: Final = frozenset(
    f"reconcile.fluxcd.io/{name}" for name in ("requestedAt", "forceAt", "resetAt")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """One write that needs no repository.

    With ``admitted`` the controller that the object names must exist, as that very object, and be
    of a kind that the policy is about; the caller looks that up, as ``OWNERS`` tells.
    """

    who: frozenset[str]
    operation: str
    resources: frozenset[str] = ANYTHING
    fact: Fact | None = None
    admitted: bool = False


_CONTROLLERS: Final = _accounts(_OF_CONTROLLERS)
_EVICTORS: Final = _accounts(
    "pod-garbage-collector node-controller device-taint-eviction-controller"
)
_PODS: Final = frozenset({"pods"})


def _generated(plural: str, *, by: str) -> tuple[Exemption, ...]:
    """Return the rows for objects that one of our accounts generates."""
    return tuple(
        Exemption(
            who=frozenset({f"penstock:{by}"}), operation=operation, resources=frozenset({plural})
        )
        for operation in ("CREATE", "UPDATE", "DELETE")
    )


EXEMPTIONS: Final = (
    # The control plane creates objects for an admitted object: ReplicaSets, Pods, Jobs.
    Exemption(who=_CONTROLLERS, operation="CREATE", fact=_controlled, admitted=True),
    # It scales, adopts, labels and completes existing objects.
    Exemption(who=_CONTROLLERS | API_SERVER, operation="UPDATE"),
    # It deletes objects that have an owner.
    Exemption(who=_CONTROLLERS, operation="DELETE", fact=_owned),
    # Objects that every namespace, account or claim gets have no owner.
    Exemption(
        who=_accounts("root-ca-cert-publisher"),
        operation="CREATE",
        resources=frozenset({"configmaps"}),
        fact=_root_ca,
    ),
    Exemption(
        who=_accounts("service-account-controller"),
        operation="CREATE",
        resources=frozenset({"serviceaccounts"}),
        fact=_default_account,
    ),
    Exemption(
        who=_accounts("legacy-service-account-token-cleaner tokens-controller"),
        operation="DELETE",
        resources=frozenset({"secrets"}),
        fact=_token,
    ),
    Exemption(
        who=_accounts("statefulset-controller"),
        operation="CREATE",
        resources=frozenset({"persistentvolumeclaims"}),
    ),
    # Pods go when their node does, or for more important ones; finished Jobs when their time is up.
    Exemption(who=_EVICTORS | {SCHEDULER}, operation="DELETE", resources=_PODS),
    Exemption(
        who=_accounts("ttl-after-finished-controller"),
        operation="DELETE",
        resources=frozenset({"jobs"}),
    ),
    # The scheduler writes its decision to Pods and claims, a node the status of Pods that it runs.
    Exemption(
        who=frozenset({SCHEDULER}),
        operation="UPDATE",
        resources=frozenset({"pods", "persistentvolumeclaims", "resourceclaims"}),
    ),
    Exemption(who=NODES, operation="CREATE", resources=_PODS, fact=_mirrored),
    Exemption(who=NODES, operation="DELETE", resources=_PODS, fact=_mirrored),
    # Load balancers of clouds keep finalizers on Services.
    Exemption(
        who=frozenset({"system:cloud-controller-manager"}),
        operation="UPDATE",
        resources=frozenset({"services"}),
    ),
    # Penstock's controllers keep finalizers on the objects that they reconcile.
    Exemption(who=PENSTOCK, operation="UPDATE", fact=_finalizers),
    # The HelmChart of a HelmRelease is its template, which was admitted with the HelmRelease.
    *_generated("helmcharts", by="helm-controller"),
    # The ExternalArtifacts of an ArtifactGenerator follow from its spec, which was admitted.
    *_generated("externalartifacts", by="source-controller"),
    # Writes without an effect are allowed for all users: no change, a request to reconcile, a
    # restart.
    Exemption(who=ANYBODY, operation="UPDATE", fact=_idle),
    Exemption(who=ANYBODY, operation="UPDATE", fact=_asks_for_a_reconcile),
    Exemption(who=ANYBODY, operation="DELETE", resources=_PODS, fact=_controlled),
)

OWNERS: Final[Mapping[tuple[str, str], tuple[str, GroupVersionKind]]] = MappingProxyType(
    {
        ("apps", "Deployment"): ("deployments", GroupVersionKind("apps", "v1", "Deployment")),
        ("apps", "ReplicaSet"): ("replicasets", GroupVersionKind("apps", "v1", "ReplicaSet")),
        ("apps", "StatefulSet"): ("statefulsets", GroupVersionKind("apps", "v1", "StatefulSet")),
        ("apps", "DaemonSet"): ("daemonsets", GroupVersionKind("apps", "v1", "DaemonSet")),
        ("batch", "Job"): ("jobs", GroupVersionKind("batch", "v1", "Job")),
        ("batch", "CronJob"): ("cronjobs", GroupVersionKind("batch", "v1", "CronJob")),
        ("", "Pod"): ("pods", GroupVersionKind("", "v1", "Pod")),
        ("", "Service"): ("services", GroupVersionKind("", "v1", "Service")),
        ("", "ReplicationController"): (
            "replicationcontrollers",
            GroupVersionKind("", "v1", "ReplicationController"),
        ),
    }
)
"""The kinds that Kubernetes' controllers make objects for: their plural, and how to read them."""


def exemption(attempt: Attempt, *, installed: str) -> Exemption | None:
    """Return the first row that allows a write without provenance.

    ``installed`` is the namespace of Penstock itself.
    """
    own = f"system:serviceaccount:{installed}:"
    names = {"*", attempt.user, *(f"group:{group}" for group in attempt.groups)}
    if attempt.user.startswith(own):
        names.add(f"penstock:{attempt.user.removeprefix(own)}")
    for row in EXEMPTIONS:
        if (
            row.operation == attempt.operation
            and not row.who.isdisjoint(names)
            and not row.resources.isdisjoint({"*", attempt.resource})
            and (row.fact is None or row.fact(attempt))
        ):
            return row
    return None


def _metadata(obj: Json | None) -> Json:
    found = (obj or {}).get("metadata")
    return found if isinstance(found, dict) else {}


def _notes(obj: Json | None) -> Json:
    return _metadata(obj).get("annotations") or {}


def _same(
    attempt: Attempt, *, ignored: Iterable[str] = _SERVER_SET, notes: Iterable[str] = ()
) -> bool:
    """Tell whether an update changes nothing but such metadata and annotations."""
    if attempt.object is None or attempt.old is None or attempt.subresource:
        return False
    before, after = (_reduced(each, ignored, notes) for each in (attempt.old, attempt.object))
    return before == after


def _reduced(obj: Json, ignored: Iterable[str], notes: Iterable[str]) -> Json:
    left = set(ignored)
    metadata: dict[str, Any] = {k: v for k, v in _metadata(obj).items() if k not in left}
    metadata["annotations"] = {k: v for k, v in _notes(obj).items() if k not in set(notes)}
    return {**obj, "metadata": metadata}
