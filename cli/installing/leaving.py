"""The status of objects that nothing reconciles any more.

A controller that is removed in the middle of its work leaves conditions that claim the work goes
on. Nobody would ever take them back, so the removal does, once the controllers are gone.
"""

from datetime import UTC, datetime
from typing import Any, Final

from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.objects import Json, dig, ref_of

REASON: Final = "Uninstalled"
_READY: Final = "Ready"
_WORKING: Final = "Reconciling"


def settled(obj: Json, now: datetime) -> list[dict[str, Any]] | None:
    """Return the conditions without any that claims work in progress; None if none does."""
    rows: list[dict[str, Any]] = list(dig(obj, "status", "conditions", default=()))
    found = [row for row in rows if row.get("type") != _WORKING]
    found = [_ended(row, now) if _is_open(row) else row for row in found]
    return found if found != rows else None


async def settle(api: Client, obj: Json) -> None:
    """Write these conditions, unless the object has changed or gone meanwhile."""
    found = settled(obj, datetime.now(UTC))
    if found is None:
        return
    ref = ref_of(obj)
    body = {
        "metadata": {"resourceVersion": dig(obj, "metadata", "resourceVersion")},
        "status": {"conditions": found},
    }
    try:
        await api.patch(
            ref.gvk, ref.name, ref.namespace, body, strategy="merge", subresource="status"
        )
    except (errors.NotFoundError, errors.ConflictError):
        return


def _is_open(row: dict[str, Any]) -> bool:
    return row.get("type") == _READY and row.get("status") == "Unknown"


def _ended(row: dict[str, Any], now: datetime) -> dict[str, Any]:
    before = str(row.get("message") or "no result")
    return {
        **row,
        "status": "False",
        "reason": REASON,
        "message": f"Penstock was uninstalled before this ended: {before}",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
