"""Reads of a cluster for the modules of this package."""

from typing import Final

from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")
POD: Final = GroupVersionKind("", "v1", "Pod")
NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


_OURS: Final = "gitops.penstock.dev"
"""The group of the aggregated API, whose objects are derived from stored ones."""


async def namespaced_kinds(api: Client) -> list[GroupVersionKind]:
    """Return the namespaced kinds that can be listed, each in its preferred version.

    Raises:
        ApiError: the discovery of a group failed.
    """
    groups = (await api.request("GET", "/apis")).get("groups", ())
    served = [str(dig(group, "preferredVersion", "groupVersion")) for group in groups]
    found = []
    for version in ["v1", *served]:
        if version.partition("/")[0] == _OURS:
            continue
        root = "/apis" if "/" in version else "/api"
        resources = (await api.request("GET", f"{root}/{version}")).get("resources", ())
        found += [
            GroupVersionKind.parse(version, row["kind"])
            for row in resources
            if row["namespaced"] and "list" in row["verbs"] and "/" not in row["name"]
        ]
    return found


async def listed(
    api: Client, kind: GroupVersionKind, namespace: str = "", *, label_selector: str = ""
) -> list[Json]:
    """Return the objects of a kind; none if the kind is not served."""
    try:
        return await api.list(kind, namespace, label_selector=label_selector)
    except (NoMatchError, NotFoundError):
        return []
