"""Check whether a namespace exists if a command finds nothing in it."""

from cli import errors, session
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind


async def require(opened: session.Session) -> None:
    """Return if the session's namespace exists, or we may not see that.

    Raises:
        UsageError: it does not exist.
    """
    try:
        await opened.api.get(GroupVersionKind("", "v1", "Namespace"), opened.namespace)
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'namespace "{opened.namespace}" does not exist; choose another one with --namespace'
        ) from exc
    except kube_errors.ForbiddenError:
        return
