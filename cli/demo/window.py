"""Stored and applied objects, shown by the API server itself, with kubectl only."""

import json
from typing import Final

from cli import errors, plans, window
from cli.demo import narration, sample
from cli.demo.stage import Stage
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

INVENTORY: Final = ObjectRef(
    GroupVersionKind("gitops.penstock.dev", "v1alpha1", "Inventory"),
    sample.NAMESPACE,
    sample.KUSTOMIZATION.name,
)


async def notice_drift(stage: Stage) -> None:
    """Keep drift, so that it can be shown: the manager that caused it, and the correction."""
    narration.chapter("13. What is stored, applied and out of line, asked of the API server")
    await stage.suspend(suspended=True)
    with narration.step("suspended: kubectl scale --replicas=1, until it is told") as clock:
        await stage.kubectl("scale", "deployment/web", "--replicas=1", "-n", sample.SHOP)
        clock.start()
        obj = await stage.until(INVENTORY, _drifted, "the inventory does not tell of the change")
        clock.stop()
        clock.note = "\n".join(
            f"{each['kind']}/{each['name']}: {each['drift']} by {', '.join(each['changedBy'])}"
            for each in dig(obj, "status", "problems", default=[])
            if each.get("drift")
        )


async def tables(stage: Stage) -> None:
    """Show both tables, and the changes that a reconciliation would make now."""
    await stage.until(INVENTORY, _calm, "deployment/web is not as it was scaled")
    narration.chapter("$ kubectl get artifacts,inventories -A")
    print(await stage.kubectl("get", "artifacts,inventories", "-A"), end="")
    where = window.path("inventories", INVENTORY.namespace, INVENTORY.name, "diff")
    narration.chapter(f"$ penstock diff inventory {INVENTORY.name} -n {INVENTORY.namespace}")
    plan = json.loads(await stage.kubectl("get", "--raw", where))
    print("\n".join(plans.lines(plan)))
    if [change["name"] for change in plan.get("changes") or ()] != [sample.WEB.name]:
        raise errors.FailedError("a reconcile would change something else than deployment/web")


def _drifted(obj: Json | None) -> bool:
    return bool(dig(obj or {}, "status", "drifted") == 1)


def _calm(obj: Json | None) -> bool:
    """Tell whether all observed objects are Current after the changes by hand."""
    status = dig(obj or {}, "status", default={})
    return _drifted(obj) and bool(status.get("current") == status.get("observed"))
