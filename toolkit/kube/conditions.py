"""Conditions as pure functions over the JSON list ``status.conditions``.

``lastTransitionTime`` moves only when the status does (``metav1.Condition``). ``Stalled``,
``Reconciling`` and ``Ready`` come first, in this order, and the others follow by type, as Flux
sorts them (``fluxcd/pkg runtime/conditions/setter.go``).
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from toolkit.objects import Json

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"

_MESSAGE_LIMIT: Final = 2048
"""The API takes 32,768 (``metav1.Condition``), which no reader does."""


def find(conditions: Iterable[Json], type_: str) -> Json | None:
    """Return the condition of that type."""
    return next((entry for entry in conditions if entry.get("type") == type_), None)


def is_true(conditions: Iterable[Json], type_: str) -> bool:
    """Tell whether the condition exists and is True."""
    return (find(conditions, type_) or {}).get("status") == "True"


def make(type_: str, status: str, reason: str, message: str) -> Json:
    """Return a condition without time and generation, which ``put`` adds; cuts the message."""
    return {"type": type_, "status": status, "reason": reason, "message": shortened(message)}


def shortened(message: str) -> str:
    """Return a message that fits into conditions and events; its end says how much was cut."""
    if len(message) <= _MESSAGE_LIMIT:
        return message
    kept = message[: _MESSAGE_LIMIT - _MARK_ROOM]
    return f"{kept}... ({len(message) - len(kept)} more characters)"


_MARK_ROOM: Final = 40


def put(
    conditions: Sequence[Json], wanted: Json, *, generation: int, now: dt.datetime
) -> list[Json]:
    """Return the list with ``wanted`` in it (``now`` must be in UTC)."""
    old = find(conditions, wanted["type"])
    kept = old and old.get("status") == wanted["status"] and old.get("lastTransitionTime")
    entry = {
        **wanted,
        "observedGeneration": generation,
        "lastTransitionTime": kept or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return sorted([*remove(conditions, wanted["type"]), entry], key=_order)


def remove(conditions: Iterable[Json], *types: str) -> list[Json]:
    """Return the list without the conditions of these types."""
    return [entry for entry in conditions if entry.get("type") not in types]


def restore(conditions: Iterable[Json], type_: str, before: Json | None) -> list[Json]:
    """Return the list with a condition as it was ``before``, times included; None removes it."""
    others = remove(conditions, type_)
    return sorted([*others, before], key=_order) if before else others


def _order(entry: Json) -> tuple[int, str]:
    kind = entry["type"]
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST), kind


_FIRST: Final = (STALLED, RECONCILING, READY)
