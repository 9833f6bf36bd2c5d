"""The changes of an object that require a reconciliation. Pure.

Changes of the status do not, and neither do other controllers' annotations and finalizers.
"""

from collections.abc import Mapping
from typing import Final

from toolkit.kube.reconciliation import FINALIZER, REQUESTED_AT, Reconcilable

_HONOURED: Final = (
    "reconcile.fluxcd.io/",
    "source.extensions.fluxcd.io/",
    "image.penstock.dev/",
    "policy.penstock.dev/verify",
)


def triggers(
    old: Reconcilable | None, new: Reconcilable, *, finalizer: str = FINALIZER
) -> tuple[str, ...]:
    """Return why ``new`` needs a pass: ``spec``, ``requested``, both, or nothing."""
    if old is None:
        return ("spec", "requested") if is_requested(new) else ("spec",)
    before, after = old.metadata, new.metadata
    requested = before.annotations.get(REQUESTED_AT) != after.annotations.get(REQUESTED_AT)
    edited = (
        before.uid != after.uid
        or before.generation != after.generation
        or before.deletion_timestamp != after.deletion_timestamp
        or before.labels != after.labels
        or _honoured(before.annotations) != _honoured(after.annotations)
        or (finalizer in before.finalizers and finalizer not in after.finalizers)
    )
    return ("spec",) * edited + ("requested",) * requested


def is_requested(obj: Reconcilable) -> bool:
    """Tell whether the user has requested a reconciliation that was not handled yet."""
    wanted = obj.metadata.annotations.get(REQUESTED_AT)
    return bool(wanted) and wanted != obj.status.last_handled_reconcile_at


def _honoured(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the other annotations that change a reconciliation, such as ``forceAt``."""
    return {
        key: value
        for key, value in annotations.items()
        if key.startswith(_HONOURED) and key != REQUESTED_AT
    }
