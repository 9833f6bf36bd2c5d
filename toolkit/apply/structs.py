"""Empty maps that Flux sends for kinds of Kubernetes, and that a take-over must send, too.

Flux decodes such an object into a Go struct before it applies it, so a struct that the manifest
does not have is sent as an empty map (fluxcd/pkg ``ssa/normalize``). Its manager then owns the map
as a whole. If an apply of the same manager left it out, the API server would remove it with all in
it that nobody owns: the labels that it gave the Pods of a Job, or the resources that a LimitRange
gave a Pod. Those cannot be removed, so the apply would be refused; others would start a rollout.

Pure: the caller reads the live object.
"""

from collections.abc import Mapping
from typing import Any, Final

from toolkit.apply import fields
from toolkit.objects import Json, gvk_of

_STRUCTS: Final = frozenset(
    {
        *("metadata", "spec", "template", "jobTemplate", "strategy", "updateStrategy"),
        *("resources", "podSelector", "clientConfig"),
    }
)
"""Fields that are structs, and no pointers, in the kinds of Kubernetes: to the API server an empty
one is the same as none."""
_GROUPS: Final = frozenset(
    {
        *("", "apps", "autoscaling", "batch", "policy"),
        *("admissionregistration.k8s.io", "networking.k8s.io", "storage.k8s.io", "node.k8s.io"),
    }
)
"""Groups with kinds that have such fields."""
_WORKLOADS: Final = frozenset(
    {
        ("", "Pod"),
        ("", "ReplicationController"),
        *(("apps", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
        *(("batch", kind) for kind in ("CronJob", "Job")),
    }
)


def runs(payload: Json) -> bool:
    """Tell whether the object runs Pods, so that what it loses would end them."""
    return gvk_of(payload).group_kind in _WORKLOADS


def kept(payload: Json, live: Json, *, manager: str) -> Json:
    """Return the payload with the empty maps that the last apply of the manager sent.

    It is the argument itself where there are none that it lacks.
    """
    entry = fields.applied_entry(live, manager)
    if entry is None or gvk_of(payload).group not in _GROUPS:
        return payload
    found: Json = _kept(payload, entry.get("fieldsV1") or {})
    return found


def _kept(value: Any, owned: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return _kept_in_map(value, owned)
    if isinstance(value, list):
        items = [_kept(item, _owned_of(item, owned)) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def _kept_in_map(value: Json, owned: Mapping[str, Any]) -> Json:
    more: Json = {}
    for step, below in owned.items():
        kind, _, name = step.partition(":")
        if kind != "f":
            continue
        if name not in value and name in _STRUCTS and not below:
            more[name] = {}
        elif below and (inner := _kept(value.get(name), below)) is not value.get(name):
            more[name] = inner
    return {**value, **more} if more else value


def _owned_of(item: Any, owned: Mapping[str, Any]) -> Mapping[str, Any]:
    key = fields.Item(item).key_in(owned)
    return (owned.get(key) or {}) if key else {}
