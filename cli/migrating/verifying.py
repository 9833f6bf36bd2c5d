"""Verify that Penstock reconciles the objects of Flux: request one reconciliation of each."""

import asyncio
import time
from collections.abc import Collection
from typing import Final

from cli import errors, progress, session, watching
from cli.check.subjects import Subject
from cli.migrating.memory import MANAGER
from cli.migrating.survey import Survey
from crds import HELM_RELEASE, KUSTOMIZATION
from toolkit.kube.errors import NotFoundError
from toolkit.objects import Json, ObjectRef, dig

_REQUESTED: Final = "reconcile.fluxcd.io/requestedAt"
_ASKED: Final = frozenset({KUSTOMIZATION.kind, HELM_RELEASE.kind})
_PARALLEL: Final = 8
_SHOWN: Final = 10


def unready(survey: Survey) -> tuple[str, ...]:
    """Return the appliers that are not ready now; they are not checked later."""
    asked = (each for each in survey.subjects if _is_asked(each))
    return tuple(str(each.ref) for each in asked if _ready(each.obj) != "True")


async def verify(opened: session.Session, survey: Survey, unready: Collection[str]) -> None:
    """Reconcile every Kustomization and HelmRelease that is not suspended.

    Raises:
        FailedError: one that was ready before is not ready any more; the message names it.
        DeadlineError: one was not reconciled in time.
    """
    asked = [each for each in survey.subjects if _is_asked(each)]
    progress.waiting(f"waiting for {len(asked)} Kustomizations and HelmReleases")
    gate = asyncio.Semaphore(_PARALLEL)

    async def one(subject: Subject) -> str:
        async with gate:
            try:
                return await ask(opened, subject.ref)
            except NotFoundError:
                return ""  # Its applier has deleted it meanwhile.

    with errors.ungrouped():
        async with asyncio.TaskGroup() as group:
            tasks = {str(each.ref): group.create_task(one(each)) for each in asked}
    told = {name: task.result() for name, task in tasks.items() if task.result()}
    lost = [f"{name}: {message}" for name, message in told.items() if name not in unready]
    if lost:
        more = [f"and {len(lost) - _SHOWN} more"] if len(lost) > _SHOWN else []
        raise errors.FailedError(
            "was ready with Flux, and is not with Penstock: "
            + "\n  ".join([*lost[:_SHOWN], *more])
            + "\n  mend it and run this again, or give the cluster back with --rollback"
        )
    progress.success(f"{len(asked) - len(told)} of {len(asked)} are ready")


def _is_asked(subject: Subject) -> bool:
    suspended = dig(subject.obj, "spec", "suspend", default=False)
    return subject.ref.gvk.kind in _ASKED and not suspended


async def ask(opened: session.Session, ref: ObjectRef) -> str:
    """Request a reconciliation, and return why the object is not ready afterwards, if so.

    Raises:
        DeadlineError: it was not reconciled in time.
        NotFoundError: it was deleted.
    """
    stamp = str(time.time_ns())
    body = {"metadata": {"annotations": {_REQUESTED: stamp}}}
    await opened.api.patch(
        *(ref.gvk, ref.name, ref.namespace, body), strategy="merge", manager=MANAGER
    )

    def answered(found: Json | None) -> bool:
        if found is None:
            return True
        handled = dig(found, "status", "lastHandledReconcileAt") == stamp
        return handled and _ready(found) in {"True", "False"}

    found = await watching.until(opened, ref, answered, what=f"{ref} was not reconciled")
    return "" if found is None or _ready(found) == "True" else _message(found)


def _ready(obj: Json) -> str:
    return str(_condition(obj).get("status", ""))


def _message(obj: Json) -> str:
    return str(_condition(obj).get("message", "")).partition("\n")[0]


def _condition(obj: Json) -> Json:
    rows = dig(obj, "status", "conditions", default=())
    return next((row for row in rows if row.get("type") == "Ready"), {})
