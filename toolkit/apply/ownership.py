"""The owner of an object, and the actions that its labels and annotations forbid.

Two labels name the owner of every applied object. They prove ownership when objects are pruned, and
select the watched objects. Marks such as ``<group>/reconcile: disabled`` may be a label or an
annotation, in the manifest or on the live object, in upper or lower case (fluxcd/pkg ``ssa/utils``
``AnyInMetadata``).

Pure functions; nothing is changed in place.
"""

import base64
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from toolkit.apply.retention import NOTHING, Retention
from toolkit.objects import Json, ObjectKey, ObjectRef, dig, gvk_of

_RBAC: Final = "rbac.authorization.k8s.io"
KUSTOMIZE_GROUP: Final = "kustomize.toolkit.fluxcd.io"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NO_MARKS: Final[Mapping[str, str]] = MappingProxyType({})
_SERVER_SET: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)

Mode = Literal["override", "merge", "ifnotpresent", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object on whose behalf we apply; ``group`` prefixes its labels and marks.

    It never deletes the namespaces that it ``keeps``, nor definitions that it guards while objects
    of their kinds exist.
    """

    namespace: str
    name: str
    group: str = KUSTOMIZE_GROUP
    keeps: Retention = NOTHING

    @property
    def key(self) -> ObjectKey:
        """Return namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def labels(self) -> dict[str, str]:
        """Return the two labels that prove ownership."""
        return {f"{self.group}/name": self.name, f"{self.group}/namespace": self.namespace}

    def retains(self, ref: ObjectRef) -> bool:
        """Tell whether the object is a Namespace that this owner never deletes."""
        return self.keeps.keeps(ref)

    def owns(self, obj: Json) -> bool:
        """Tell whether the labels of the object name this owner."""
        return owner_of(obj, self.group) == self.key


def selector(group: str = KUSTOMIZE_GROUP) -> str:
    """Return the label selector that finds every applied object."""
    return f"{group}/name"


def owner_of(obj: Json, group: str = KUSTOMIZE_GROUP) -> ObjectKey | None:
    """Return the owner that the labels name, or None if a label is missing."""
    labels = dig(obj, "metadata", "labels", default={})
    namespace, name = labels.get(f"{group}/namespace"), labels.get(f"{group}/name")
    if not (namespace and name):
        return None
    # Many objects have the same owner.
    return ObjectKey(sys.intern(namespace), sys.intern(name))


def own(
    obj: Json,
    owner: Owner,
    *,
    labels: Mapping[str, str] = _NO_MARKS,
    annotations: Mapping[str, str] = _NO_MARKS,
) -> Json:
    """Return the object to apply: with common metadata and owner labels, without server fields.

    Common metadata win over the manifest's, and the owner labels over both. Fields that only the
    server may set are dropped, and so is kubectl's copy of the manifest. ``stringData`` is merged
    into ``data``, because the server keeps no owner of a write-only field.
    """
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _SERVER_SET}
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels, **owner.labels}
    notes = {**(metadata.pop("annotations", None) or {}), **annotations}
    notes.pop(LAST_APPLIED, None)
    if notes:
        metadata["annotations"] = notes
    owned = {**obj, "metadata": metadata}
    owned.pop("status", None)
    return _without_string_data(_without_nulls(owned)) if is_secret(owned) else owned


def ceded(obj: Json) -> Json:
    """Return the object without a field that the control plane fills in whatever is sent.

    Those are the ``rules`` of a ClusterRole with an ``aggregationRule``: sent, they would replace
    the aggregated ones for a moment (``ClusterRole.aggregationRule`` in the API reference).
    """
    aggregated = gvk_of(obj).group_kind == (_RBAC, "ClusterRole") and "rules" in obj
    if not aggregated or not isinstance(obj.get("aggregationRule"), dict):
        return obj
    return {name: value for name, value in obj.items() if name != "rules"}


def is_secret(obj: Json) -> bool:
    """Tell whether it is a core Secret, whose values must never be shown."""
    return obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1"


def marked(obj: Json, owner: Owner, name: str, value: str) -> bool:
    """Tell whether a label or annotation ``<group>/<name>`` has this value, in any case."""
    key = f"{owner.group}/{name}"
    for place in ("annotations", "labels"):
        found = dig(obj, "metadata", place, default=_NO_MARKS).get(key)
        if found is not None and str(found).lower() == value:
            return True
    return False


def hands_off(obj: Json, owner: Owner) -> bool:
    """Tell whether the object forbids us to touch it at all."""
    return marked(obj, owner, "reconcile", "disabled") or marked(obj, owner, "ssa", "ignore")


def yields(obj: Json, owner: Owner) -> bool:
    """Tell whether the object is only created, and its content left to others then."""
    return marked(obj, owner, "ssa", "ifnotpresent")


def prunable(live: Json, owner: Owner) -> bool:
    """Tell whether the object itself allows its deletion once it has left the build."""
    return not (hands_off(live, owner) or marked(live, owner, "prune", "disabled"))


def _without_nulls(secret: Json) -> Json:
    """Return the Secret with empty values in place of null, as the API server stores it.

    A null has an owner only until it is stored, so each apply would write the Secret.
    """
    data = secret.get("data")
    if not isinstance(data, dict) or None not in data.values():
        return secret
    return {**secret, "data": {key: "" if v is None else v for key, v in data.items()}}


def _without_string_data(secret: Json) -> Json:
    plain = secret.get("stringData")
    if not isinstance(plain, dict):
        return secret
    # null is an empty text to the API server.
    texts = {k: "" if v is None else str(v) for k, v in plain.items()}
    encoded = {k: base64.b64encode(v.encode()).decode() for k, v in texts.items()}
    folded = {**secret, "data": {**(secret.get("data") or {}), **encoded}}
    del folded["stringData"]
    return folded
