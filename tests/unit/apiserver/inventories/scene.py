"""Inventories over observations that a test sets, without a cluster."""

from dataclasses import replace
from typing import Any

from apiserver.inventories.appliers import APPLIERS, Applied, Source
from apiserver.inventories.drift import Observed
from toolkit.apply.health import Health, Status
from toolkit.apply.projection import Live
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef

APPLIER = APPLIERS[0]
KEY = ObjectKey("shop", "app")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
REF = ObjectRef(CONFIG_MAP, "shop", "conf")
READY = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "Applied"} | {
    "lastTransitionTime": "2026-01-02T00:00:00Z"
}

LIVE = Live(
    uid="u",
    resource_version="10",
    entry="ours",
    writers=(),
    owner=KEY,
    health=Health(Status.CURRENT),
    rule="",
)
SEEN = Observed(
    live=LIVE,
    created="2026-01-01T00:00:00Z",
    applied="2026-01-02T00:00:00Z",
    owned=2,
    sole="ours",
    later=(),
)


def seen(status: Status = Status.CURRENT, **live: Any) -> Observed:
    """Return an applied object; with another ``entry`` somebody has taken a field from it."""
    found = replace(LIVE, health=Health(status), **live)
    owned = SEEN.owned if found.entry == LIVE.entry else SEEN.owned - 1
    return replace(SEEN, live=found, owned=owned, sole=found.entry)


def applied(*refs: ObjectRef, **changes: Any) -> Applied:
    """Return an applier that is ready and lists these objects."""
    fields: dict[str, Any] = {
        "key": KEY,
        "uid": "a-uid",
        "resource_version": "5",
        "created": "2026-01-01T00:00:00Z",
        "sources": (Source(kind="GitRepository", namespace="shop", name="repo"),),
        "revision": "main@sha1:" + "a" * 40,
        "conditions": (READY,),
        "refs": refs,
    }
    return Applied(**{**fields, **changes})
