"""Flux's controllers, stopped and started. Their Deployments stay as they are otherwise."""

from contextlib import suppress
from typing import Final

from cli import errors, progress, session, watching
from cli.installing import flux, readiness
from cli.installing.cluster import DEPLOYMENT, POD
from cli.migrating.memory import MANAGER
from cli.migrating.survey import Survey
from toolkit.apply.health import Status
from toolkit.kube.errors import NotFoundError
from toolkit.objects import Json, ObjectRef, dig, key_of, ref_of

_LEAST: Final = 1
"""Replicas to start with if a controller was stopped before."""


def replicas(survey: Survey, known: dict[str, int]) -> dict[str, int]:
    """Return the replicas of each Deployment to stop; stored numbers are kept."""
    found = {
        key_of(each).name: max(_LEAST, dig(each, "spec", "replicas", default=1))
        for each in survey.deployments
        if flux.is_replaced(flux.component(each))
    }
    return found | known


async def stop(opened: session.Session, namespace: str, names: list[str]) -> None:
    """Scale the Deployments to zero, and wait until their last pods have ended.

    Raises:
        DeadlineError: a pod has not ended in time, because it finishes a release first.
    """
    stopping: list[ObjectRef] = []
    for name in names:
        ref = ObjectRef(DEPLOYMENT, namespace, name)
        progress.action(f"stopping Deployment {ref.key}")
        # One that is gone has nothing to stop.
        with suppress(NotFoundError):
            await _scale(opened, ref, 0)
            stopping.append(ref)
    progress.waiting(f"waiting for the pods of {len(stopping)} Deployments to end")
    for ref in stopping:
        found = await watching.until(
            opened, ref, _has_stopped, what=f"Deployment {ref.key} has pods, and had not stopped"
        )
        for pod in await _pods(opened, found or {}):
            await watching.gone(opened, ref_of(pod))


async def start(opened: session.Session, namespace: str, wanted: dict[str, int]) -> None:
    """Scale the Deployments to their earlier replicas, and wait until they are ready.

    Raises:
        FailedError: a Deployment does not exist.
        DeadlineError: one is not ready in time.
    """
    for name, count in wanted.items():
        progress.action(f"starting Deployment {namespace}/{name}")
        ref = ObjectRef(DEPLOYMENT, namespace, name)
        try:
            await _scale(opened, ref, count)
        except NotFoundError as exc:
            raise errors.FailedError(
                f"Deployment {ref.key} is gone: install Flux again, with its manifests or `flux "
                "install`, and run this again"
            ) from exc
    progress.waiting(f"waiting for {len(wanted)} Deployments")
    for name in wanted:
        ref = ObjectRef(DEPLOYMENT, namespace, name)
        await watching.until(opened, ref, _is_ready, what=f"Deployment {ref.key} was not ready")
        progress.success(f"{name} ready")


async def _scale(opened: session.Session, ref: ObjectRef, count: int) -> None:
    body = {"spec": {"replicas": count}}
    await opened.api.patch(
        *(ref.gvk, ref.name, ref.namespace, body), strategy="merge", manager=MANAGER
    )


def _has_stopped(found: Json | None) -> bool:
    if found is None:
        return True
    observed = dig(found, "status", "observedGeneration") == dig(found, "metadata", "generation")
    return observed and not dig(found, "status", "replicas", default=0)


def _is_ready(found: Json | None) -> bool:
    return found is not None and readiness.assess(found).status is Status.CURRENT


async def _pods(opened: session.Session, deployment: Json) -> list[Json]:
    labels = dig(deployment, "spec", "selector", "matchLabels", default={})
    if not labels:
        return []
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return await opened.api.list(POD, key_of(deployment).namespace, label_selector=selector)
