"""Whether a namespace is being deleted.

The deletion of a namespace deletes everything in it in no particular order: also the accounts, role
bindings and records of Helm with which an applier in it would delete its other objects.
"""

from typing import Final

from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, dig

_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


async def ending(client: Client, name: str) -> bool:
    """Tell whether a namespace is being deleted or is gone; False if it may not be read.

    Controllers may list namespaces but not get them (``permissions.cluster``).

    Raises:
        ApiError: the API server does not answer.
    """
    try:
        found = await client.list(_NAMESPACE, field_selector=f"metadata.name={name}")
    except ForbiddenError:
        return False
    return all(dig(each, "metadata", "deletionTimestamp") for each in found)
