"""Decide whether an object of one namespace may use an object of another.

Pure: the caller gathers, this decides. The answer never depends on whether the target exists, so
a denial tells nothing about other namespaces.
"""

from toolkit.errors import AccessDeniedError
from toolkit.objects import ObjectRef


def require_reference(holder: ObjectRef, target: ObjectRef, *, cross_namespace: bool) -> None:
    """Let ``holder`` refer to ``target``.

    Raises:
        AccessDeniedError: the namespaces differ and ``--no-cross-namespace-refs`` is set.
    """
    if cross_namespace or target.namespace == holder.namespace:
        return
    raise AccessDeniedError(
        f"can't access '{target}', cross-namespace references have been blocked"
    )
