"""What the modules of this package read of a cluster, and how."""

from typing import Final

from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json

DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")
POD: Final = GroupVersionKind("", "v1", "Pod")
NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


async def listed(
    api: Client, kind: GroupVersionKind, namespace: str = "", *, label_selector: str = ""
) -> list[Json]:
    """Return the objects of a kind; none if the kind is not served."""
    try:
        return await api.list(kind, namespace, label_selector=label_selector)
    except (NoMatchError, NotFoundError):
        return []
