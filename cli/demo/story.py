"""The main job, chapter by chapter. Every time is taken from a watch, none from looking again."""

import asyncio
from typing import Final

from apiserver.cells import shorten
from cli import errors, status
from cli.demo import gate, gitless, images, narration, notifying, sample, window
from cli.demo.stage import Stage
from toolkit.objects import Json, ObjectRef, dig

QUIET: Final = 1.5
"""Seconds in which a suspended object must not be corrected."""


async def commit_to_ready(stage: Stage) -> None:
    """Go from two objects and a commit to a running Deployment."""
    narration.chapter("1. From a commit to running objects")
    with narration.step("kubectl apply of GitRepository and Kustomization, until Ready") as clock:
        commit = await stage.repository.commit("Open the shop", write=sample.first())
        clock.start()
        await stage.kubectl.apply(*sample.objects(stage.url))
        obj = await stage.applied(commit)
        clock.stop()
        clock.note = shorten(status.readiness(obj).message)
    narration.tell(await stage.kubectl("get", "all,configmaps", "-n", sample.SHOP, *sample.OWNED))


async def roll_out(stage: Stage) -> None:
    """Change the running version by a commit."""
    narration.chapter("2. A change is rolled out")
    with narration.step("git push of image 2.0 and 3 replicas, until all are available") as clock:
        change = {"deploy/web.yaml": sample.web(replicas=3, image="shop:2.0")}
        commit = await stage.repository.commit("Sell version 2.0", write=change)
        clock.start()
        await stage.push()
        obj = await stage.applied(commit)
        clock.stop()
        clock.note = shorten(status.readiness(obj).message)
    web = await stage.until(sample.WEB, lambda obj: _replicas(obj) == 3, "3 replicas")
    narration.tell(f"deployment/web: {_image(web)}, {_replicas(web)} replicas")


async def heal(stage: Stage) -> None:
    """Change objects by hand, and show that they are corrected at once."""
    narration.chapter("3. A change by hand is healed, when it happens")
    with narration.step("kubectl scale deployment/web --replicas=0, until it is 3 again") as clock:
        await _edit_and_heal(stage, clock, sample.WEB, "scale", "deployment/web", "--replicas=0")
    with narration.step("kubectl delete service/web, until there is another one") as clock:
        await _edit_and_heal(stage, clock, sample.SERVICE, "delete", "service/web", "--wait=false")


async def prune(stage: Stage) -> None:
    """Remove a manifest, and see its object go."""
    narration.chapter("4. A removed manifest is pruned")
    with narration.step("git rm deploy/banner.yaml, until configmap/banner is gone") as clock:
        await stage.repository.commit("Take the banner down", remove=("deploy/banner.yaml",))
        clock.start()
        await stage.push()
        await stage.until(sample.BANNER, lambda obj: obj is None, "configmap/banner is not gone")


async def refuse(stage: Stage) -> None:
    """Push a broken commit: refused whole, with its reason, and nothing that runs is touched."""
    narration.chapter("5. A broken commit is refused; what runs stays")
    before = await stage.session.api.get(sample.WEB.gvk, sample.WEB.name, sample.WEB.namespace)
    with narration.step("git push of replicas: many, until it is refused") as clock:
        broken = {
            "deploy/web.yaml": sample.web(replicas="many", image="shop:3.0"),
            "deploy/banner.yaml": sample.banner("Never seen"),
        }
        commit = await stage.repository.commit("Sell version 3.0, maybe", write=broken)
        clock.start()
        await stage.push()
        obj = await stage.until(
            sample.KUSTOMIZATION, lambda obj: _refused(obj, commit), "the broken commit was taken"
        )
        clock.stop()
        ready = status.readiness(obj)
        message = f"Ready={ready.status} {ready.reason}: {shorten(ready.message)}"
        clock.note = narration.quote(message)
    await _unchanged(stage, before)
    with narration.step("git push of the correction, until Ready") as clock:
        fixed = {"deploy/web.yaml": sample.web(replicas=3, image="shop:3.0")}
        commit = await stage.repository.commit("Sell version 3.0", write=fixed)
        clock.start()
        await stage.push()
        await stage.applied(commit)


async def suspend(stage: Stage) -> None:
    """Suspend the Kustomization, which leaves everything alone until it is resumed."""
    narration.chapter("6. Suspend and resume")
    with narration.step("suspended: kubectl scale deployment/web --replicas=1 stays") as clock:
        await stage.suspend(suspended=True)
        await stage.kubectl("scale", "deployment/web", "--replicas=1", "-n", sample.SHOP)
        clock.start()
        # Here the passing of time is the point: nothing may happen in it.
        await asyncio.sleep(QUIET)
        web = await stage.session.api.get(sample.WEB.gvk, sample.WEB.name, sample.WEB.namespace)
        if _replicas(web) != 1:
            raise errors.FailedError("a suspended Kustomization has corrected deployment/web")
    with narration.step("resumed: until deployment/web has 3 replicas again") as clock:
        await stage.suspend(suspended=False)
        await stage.until(sample.WEB, lambda obj: _replicas(obj) == 3, "web was not corrected")
        clock.stop()
        await stage.until(
            sample.KUSTOMIZATION, lambda obj: obj is not None and status.settled(obj), "not Ready"
        )


async def tables(stage: Stage) -> None:
    """Show the tables for users."""
    narration.chapter("$ kubectl get gitrepositories,kustomizations -A")
    print(await stage.kubectl("get", "gitrepositories,kustomizations", "-A"), end="")


CHAPTERS: Final = (
    commit_to_ready,
    roll_out,
    heal,
    prune,
    refuse,
    suspend,
    gate.demand_signatures,
    gate.grant_references,
    gate.decrypt,
    gitless.follow_tag,
    notifying.by_hook,
    images.follow_image,
    tables,
    window.notice_drift,
    window.tables,
)


async def _edit_and_heal(stage: Stage, clock: narration.Clock, ref: ObjectRef, *edit: str) -> None:
    """Edit an object; measure from the moment the edit is seen to the one it is seen undone."""
    before = await stage.session.api.get(ref.gvk, ref.name, ref.namespace)
    watching = asyncio.Event()
    edited = False

    def healed(obj: Json | None) -> bool:
        nonlocal edited
        watching.set()
        if obj is None or not _same(obj, before):
            if not edited:
                clock.start()
            edited = True
            return False
        return edited

    healing = asyncio.create_task(stage.until(ref, healed, f"kubectl {edit[0]} was not undone"))
    opened = asyncio.create_task(watching.wait())
    try:
        await asyncio.wait((healing, opened), return_when=asyncio.FIRST_COMPLETED)
        await stage.kubectl(*edit, "-n", sample.SHOP)
        await healing
    finally:
        healing.cancel()
        opened.cancel()


async def _unchanged(stage: Stage, before: Json) -> None:
    """Check that the broken commit left no trace: not on web, and no banner either."""
    after = await stage.session.api.get(sample.WEB.gvk, sample.WEB.name, sample.WEB.namespace)
    banners = await stage.kubectl("get", "configmaps", "-n", sample.SHOP, "-o", "name")
    if not _same(after, before) or "configmap/banner" in banners.split():
        raise errors.FailedError("the broken commit was applied in part")
    narration.tell(f"deployment/web still runs {_image(after)}; nothing of the commit was applied")


def _refused(obj: Json | None, commit: str) -> bool:
    attempted = str(dig(obj or {}, "status", "lastAttemptedRevision", default=""))
    ready = status.readiness(obj or {})
    return attempted.endswith(commit) and ready.status == "False" and bool(ready.reason)


def _same(one: Json, other: Json) -> bool:
    """Tell whether the specs are equal, except for values that the server assigns."""
    return _chosen_by_us(one) == _chosen_by_us(other)


def _chosen_by_us(obj: Json) -> Json:
    spec = dig(obj, "spec", default={})
    return {key: value for key, value in spec.items() if key not in ("clusterIP", "clusterIPs")}


def _replicas(obj: Json | None) -> int:
    return int(dig(obj or {}, "spec", "replicas", default=-1))


def _image(obj: Json) -> str:
    containers = dig(obj, "spec", "template", "spec", "containers", default=[{}])
    return str(containers[0].get("image"))
