"""Apply an installation to the cluster, over an older one if there is one, and wait for it.

Objects of an earlier ``penstock install`` that this one does not contain are deleted at the end:
those of a component that is no longer chosen, or of an older version. CRDs and namespaces are never
deleted here.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from cli import errors, progress, session, sole, watching
from cli.installing import components, flux, manifests, readiness
from cli.installing.cluster import DEPLOYMENT, POD, listed
from cli.stack import install
from toolkit.apply import order
from toolkit.apply.health import Status
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import Json, ObjectKey, ObjectRef, dig, gvk_of, key_of, ref_of

_GIT: Final = ("kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace")
_SHOWN: Final = 3


async def require_free(
    api: Client, choice: manifests.Choice, *, keeper: ObjectKey | None = None
) -> bool:
    """Require that nothing else reconciles the same objects, or these manifests.

    The Kustomization ``keeper`` may apply them; return whether it does.

    Raises:
        UsageError: Flux's controllers exist, Penstock is in another namespace, Git applies the
            installation, or a ``penstock up`` runs.
    """
    await sole.require_no_other(api, report=progress.waiting)
    return judge(await listed(api, DEPLOYMENT, label_selector=flux.SELECTOR), choice, keeper)


def judge(
    deployments: Iterable[Json], choice: manifests.Choice, keeper: ObjectKey | None = None
) -> bool:
    """Do as ``require_free``, given the Deployments of Flux and of Penstock."""
    kept = False
    for found in deployments:
        key, ours = key_of(found), flux.is_ours(found)
        if not ours and flux.competes(found):
            raise errors.UsageError(
                f"Deployment {key} of Flux reconciles the same objects: take over with `penstock "
                "migrate --from-flux`, or scale it to 0 replicas or delete it, or use --force"
            )
        if not ours and key.namespace != choice.namespace:
            continue
        by = _applier(found)
        if by is not None and by != keeper:
            raise errors.UsageError(
                f"Deployment {key} is applied by Kustomization {by}, which would undo this: change "
                "the manifests in its repository, or use --force"
            )
        kept = kept or (by is not None and ours)
        if ours and key.namespace != choice.namespace:
            raise errors.UsageError(
                f"Penstock is installed in namespace {key.namespace}: name it with --namespace, or "
                "uninstall it there first, or use --force"
            )
    return kept


def _applier(obj: Json) -> ObjectKey | None:
    """Return the Kustomization in the labels of an object."""
    labels = dig(obj, "metadata", "labels", default={})
    name, namespace = (str(labels.get(label) or "") for label in _GIT)
    return ObjectKey(namespace, name) if name and namespace else None


async def write(opened: session.Session, objects: Sequence[Json]) -> None:
    """Apply the objects, share the sources of a new installation, delete old objects.

    Raises:
        ApiError: an object was refused.
        DeadlineError: a CRD was not served in time.
        UsageError: a component needs kinds that the cluster does not serve.
    """
    api, namespace = opened.api, opened.namespace
    await _require_served(api, objects)
    fresh = await install.is_fresh(api, namespace)
    for stage in order.stages(objects):
        progress.action(f"applying {len(stage.objects)} {stage.name}")
        for run in order.by_rank(stage.objects):
            with errors.ungrouped():
                await install.apply_all(api, run)
        names = [key_of(o).name for o in stage.objects if o["kind"] == "CustomResourceDefinition"]
        await install.established(api, names)
        api.mapper.invalidate()
    if fresh:
        with errors.ungrouped():
            await install.grant(api, {namespace, install.SHARED})
    progress.success(f"{len(objects)} objects applied")
    await _prune(api, objects)


async def _require_served(api: Client, objects: Sequence[Json]) -> None:
    """Require the kinds of others before the first write, so that nothing is left half installed.

    Raises:
        UsageError: the cluster does not serve one.
    """
    for group, component in components.NEEDS.items():
        kinds = sorted({gvk for gvk in map(gvk_of, objects) if gvk.group == group})
        for gvk in kinds:
            try:
                await api.mapper.resource(gvk)
            except NoMatchError as exc:
                raise errors.UsageError(
                    f"component '{component}' needs {' and '.join(each.kind for each in kinds)} of "
                    f"{gvk.api_version}, which the cluster does not serve: install the operator "
                    "that defines them first, or leave the component out"
                ) from exc


async def ready(opened: session.Session, objects: Iterable[Json]) -> None:
    """Wait until all Deployments are ready.

    Raises:
        DeadlineError: one is not ready in time; the message has the reason of its pods.
        FailedError: one has failed.
    """
    deployments = [ref_of(obj) for obj in objects if obj["kind"] == DEPLOYMENT.kind]
    progress.waiting(f"waiting for {len(deployments)} Deployments")
    with errors.ungrouped():
        async with asyncio.TaskGroup() as group:
            for ref in deployments:
                group.create_task(_ready(opened, ref))


async def _ready(opened: session.Session, ref: ObjectRef) -> None:
    what = f"Deployment {ref.key} was not ready"
    try:
        await watching.until(opened, ref, _current, what=what)
    except errors.DeadlineError as exc:
        raise errors.DeadlineError(f"{exc}{await why(opened.api, ref)}") from exc
    progress.success(f"{ref.name} ready")


def _current(found: Json | None) -> bool:
    if found is None:
        return False
    judged = readiness.assess(found)
    if judged.status is Status.FAILED:
        raise errors.FailedError(f"Deployment {key_of(found)} failed: {judged.message}")
    return judged.status is Status.CURRENT


async def why(api: Client, deployment: ObjectRef) -> str:
    """Return what the pods of a Deployment wait for, as the end of a message."""
    pods = await api.list(POD, deployment.namespace, label_selector=f"app={deployment.name}")
    found = dict.fromkeys(reason for pod in pods for reason in _reasons(pod))
    return "".join(f"\n  {reason}" for reason in list(found)[:_SHOWN])


def _reasons(pod: Json) -> Iterable[str]:
    name = key_of(pod).name
    for row in dig(pod, "status", "conditions", default=()):
        if row.get("type") == "PodScheduled" and row.get("status") == "False":
            yield f"pod {name}: {row.get('reason')}: {row.get('message')}"
    for container in dig(pod, "status", "containerStatuses", default=()):
        waits = dig(container, "state", "waiting", default={})
        if waits:
            told = ": ".join(filter(None, (waits.get("reason"), waits.get("message"))))
            yield f"pod {name}, container {container.get('name')}: {told}"


async def _prune(api: Client, objects: Iterable[Json]) -> None:
    wanted = {_identity(obj) for obj in objects}
    for kind in await manifests.kinds():
        for found in await listed(api, kind, label_selector=manifests.INSTANCE):
            if _identity(found) in wanted or not is_ours(found):
                continue
            ref = ref_of(found)
            progress.action(f"deleting {ref.gvk.kind} {ref.key}, which is no longer part of it")
            try:
                uid = str(dig(found, "metadata", "uid"))
                await api.delete(ref.gvk, ref.name, ref.namespace, uid=uid)
            except NotFoundError:
                continue


def _identity(obj: Json) -> tuple[str, str, str]:
    ref = ref_of(obj)
    return ref.gvk.kind, ref.namespace, ref.name


def is_ours(obj: Json) -> bool:
    """Tell whether this command wrote an object; objects of other tools are not removed."""
    entries = dig(obj, "metadata", "managedFields", default=())
    return any(
        row.get("manager") == install.MANAGER and row.get("operation") == "Apply" for row in entries
    )
