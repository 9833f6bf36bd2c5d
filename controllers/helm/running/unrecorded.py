"""Delete the objects of a release whose records are gone with their namespace.

Without a record Helm finds no release, deletes nothing and runs no hook. Objects outside of the
deleted namespace would stay, although ``status.inventory`` still lists them. An object is deleted
only if its labels and annotations name the HelmRelease and the release.
"""

import functools
from typing import Final

from controllers.helm.deciding import outcomes
from controllers.helm.running import inventories
from controllers.helm.running.draft import Draft
from controllers.helm.running.engine import Target
from crds.helm_status import Snapshot
from toolkit.apply import prune
from toolkit.apply.ownership import Owner
from toolkit.apply.prune import Pruned
from toolkit.objects import Json, dig

_NAME: Final = "meta.helm.sh/release-name"
_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_POLICY: Final = "helm.sh/resource-policy"


async def delete(draft: Draft, target: Target, release: Snapshot) -> Pruned:
    """Delete the objects of the inventory that belong to a release.

    If the release never succeeded, all of them stay: it may have taken over objects that existed
    before, and which they are is not known without a record.

    Raises:
        ApiError: the API server cannot be reached.
    """
    obj = draft.obj
    if not obj.status.last_applied_revision:
        return Pruned()
    owner = Owner(
        namespace=obj.metadata.namespace,
        name=obj.metadata.name,
        group=outcomes.GROUP,
        keeps=target.keeps,
    )
    pruned = await prune.prune(
        target.client,
        inventories.listed(obj.status),
        owner=owner,
        stays=functools.partial(_stays, release),
    )
    if pruned.lines:
        draft.rec.event("info", "UninstallSucceeded", "\n".join(pruned.lines))
    return pruned


def _stays(release: Snapshot, live: Json) -> bool:
    """Tell whether the release does not delete an object, as Helm judges it."""
    notes = dig(live, "metadata", "annotations", default={})
    keeps = str(notes.get(_POLICY, "")).strip().lower() == "keep"
    return keeps or (notes.get(_NAME), notes.get(_NAMESPACE)) != (release.name, release.namespace)
