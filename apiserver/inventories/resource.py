"""The resource ``inventories``: its row, and its informers and watches."""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Final

from apiserver import origin, owntoken
from apiserver.inventories import columns
from apiserver.inventories.appliers import APPLIERS, Applied, Applier
from apiserver.inventories.inventory import API_VERSION, KIND
from apiserver.inventories.kinds import Kinds
from apiserver.inventories.listing import Listing
from apiserver.inventories.model import (
    Inventory,
    InventoryObjects,
    InventoryPlan,
    InventoryReconcile,
    InventoryTree,
)
from apiserver.inventories.plans import AUDIENCE, Plans
from apiserver.inventories.projection import Inventories
from apiserver.inventories.reconciling import Reconciling
from apiserver.inventories.tree import Tree
from apiserver.resource import Parameter, Resource, Subresource
from apiserver.view import View
from apiserver.watches import Part, Watches
from toolkit.expressions import evaluator
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule

logger = logging.getLogger(__name__)

PERMISSIONS: Final = (
    # The appliers; patch requests a reconciliation (subresource reconcile).
    Rule(
        groups=("kustomize.toolkit.fluxcd.io",),
        resources=("kustomizations",),
        verbs=("get", "list", "watch", "patch"),
    ),
    Rule(
        groups=("helm.toolkit.fluxcd.io",),
        resources=("helmreleases",),
        verbs=("get", "list", "watch", "patch"),
    ),
    # The same for the sources (reconcile with withSource).
    Rule(
        groups=("source.toolkit.fluxcd.io",),
        resources=(
            "gitrepositories",
            "ocirepositories",
            "buckets",
            "helmrepositories",
            "helmcharts",
        ),
        verbs=("get", "patch"),
    ),
    # Controllers require this permission from clients that request plans.
    Rule(groups=("gitops.penstock.dev",), resources=("inventories/plan",), verbs=("get",)),
)

# A token of the own account, to request plans.
NAMESPACE_PERMISSIONS: Final = owntoken.PERMISSIONS

_PATIENCE: Final = 20.0
"""Timeout in seconds for the first look at applied objects; missing ones are then unobserved."""
_LOOK: Final = 0.05
_SHARE: Final = 0.2
"""The part of one processor that tenants' expressions may have."""


def inventories(manager: Manager, options: Options, watches: Watches) -> Resource:
    """Wire the resource into the manager."""
    view = View(kind=KIND, api_version=API_VERSION, tag=secrets.randbelow(1000))
    evaluates = evaluator.start(share=_SHARE)
    manager.until_end.push_async_callback(evaluates.close)
    several = {
        applier: Inventories(manager.client, applier, view, evaluates=evaluates)
        for applier in APPLIERS
    }
    parts = [_follow(watches, *each, view) for each in several.items()]
    known = Kinds(several)
    manager.add_service(known.run)

    async def complete() -> None:
        started = await origin.mark(
            manager.client, namespace=manager.namespace, identity=manager.identity
        )
        for part in parts:
            await part.wait_synced()
        for each in several.values():
            await _first_look(each)
        view.complete(started=started)

    manager.add_service(complete)
    addresses = _planners(manager, options)
    plans = Plans(known, view, addresses=addresses, token=owntoken.of(manager, AUDIENCE))
    manager.add_service(plans.run)
    return Resource(
        kind=KIND,
        plural="inventories",
        singular="inventory",
        short_names=("inv",),
        model=Inventory,
        columns=columns.COLUMNS,
        fields=columns.FIELDS,
        view=view,
        subresources=_subresources(
            Listing(known, view),
            Tree(manager.client, known, view),
            plans,
            Reconciling(manager.client, known, view),
        ),
    )


def _planners(manager: Manager, options: Options) -> Mapping[str, str]:
    """Return the address of each controller for plans: its Service, or the one in the flag."""
    given = {
        "kustomize-controller": options.plan_address,
        "helm-controller": options.helm_plan_address,
    }
    names = {applier.planner for applier in APPLIERS}
    return {name: given[name] or f"{name}.{manager.namespace}.svc" for name in names}


def _follow(watches: Watches, applier: Applier, known: Inventories, view: View) -> Part[Applied]:
    """Watch the appliers of a kind."""
    part = watches.follow(applier.gvk, applier.read)
    part.subscribe(known.applier)
    view.follow(part)
    return part


async def _first_look(known: Inventories) -> None:
    """Wait until every object was observed once, or the reason why it cannot be is known."""
    observation = known.observation
    try:
        async with asyncio.timeout(_PATIENCE):
            observation.settle()
            while not observation.settled:  # noqa: ASYNC110 - no informer tells that it failed
                await asyncio.sleep(_LOOK)
            # Read the objects that the watches do not show, one by one.
            observation.look()
            await known.flush()
            while observation.reading:  # noqa: ASYNC110 - no event tells the end of the reads
                await asyncio.sleep(_LOOK)
    except TimeoutError:
        logger.info("applied objects are not all read yet")
    observation.look()
    await known.flush()


def _subresources(
    listing: Listing, tree: Tree, plans: Plans, reconciling: Reconciling
) -> tuple[Subresource, ...]:
    return (
        Subresource(
            name="objects",
            kind="InventoryObjects",
            verbs=("get",),
            handle=listing.handle,
            model=InventoryObjects,
            description="All objects of the inventory.",
        ),
        Subresource(
            name="tree",
            kind="InventoryTree",
            verbs=("get",),
            handle=tree.handle,
            model=InventoryTree,
            description="The objects and what they own, down to Pods.",
        ),
        Subresource(
            name="diff",
            kind="InventoryPlan",
            verbs=("get",),
            handle=plans.diff,
            model=InventoryPlan,
            description="What a reconcile, or an upgrade, would change now.",
        ),
        Subresource(
            name="plan",
            kind="InventoryPlan",
            verbs=("get",),
            handle=plans.plan,
            model=InventoryPlan,
            parameters=(
                Parameter(
                    name="revision",
                    required=True,
                    description="The revision or its digest, or the hash of either.",
                ),
            ),
            description="What a reconcile of another revision would change now.",
        ),
        Subresource(
            name="reconcile",
            kind="InventoryReconcile",
            verbs=("create",),
            handle=reconciling.handle,
            model=InventoryReconcile,
            parameters=(Parameter(name="dryRun", description="`All` writes nothing."),),
            description="Ask for a reconcile.",
        ),
    )
