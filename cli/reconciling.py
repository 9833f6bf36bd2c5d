"""Request a reconciliation of an object, and wait until it has ended.

The request is Flux's annotation; the answer is ``status.lastHandledReconcileAt`` (flux2
``cmd/flux/reconcile.go``). The waiting is a watch.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cli import errors, kindtree, origins, progress, session, status, watching
from crds import KUSTOMIZATION
from crds.kind import Kind
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The condition to wait for, besides Ready for the generation.

    ``requested``: the answer to this request. ``beyond``: another revision than this. ``patient``:
    wait on after a failure, because the controller tries again, unless the object is stalled.
    ``begun``: the object was there before, so its first failure is one, too.
    """

    requested: str = ""
    begun: bool = False
    beyond: str = ""
    patient: bool = False


_READY: Final = Goal()


async def request(
    opened: session.Session,
    kind: Kind[Any],
    key: ObjectKey,
    *,
    also: Iterable[str] = (),
    patient: bool = False,
) -> Json:
    """Request one reconciliation and return the object when it has succeeded.

    ``also`` are further annotations to set to the time of the request. An object without a
    controller is returned unchanged. ``patient`` is as in ``Goal``.

    Raises:
        UsageError: the object is suspended or does not exist.
        FailedError: the reconciliation failed.
        DeadlineError: it did not end within the session's timeout.
    """
    obj = await live(opened, kind, key, verb="reconcile")
    if status.static(obj):
        progress.success(
            f"{kind.kind} {key.name} is not reconciled: controllers read it when they use it"
        )
        return obj
    moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    progress.action(f"annotating {kind.kind} {key.name} in {key.namespace} namespace")
    notes = dict.fromkeys((status.REQUESTED_AT, *also), moment)
    body: Json = {"metadata": {"annotations": notes}}
    await opened.api.patch(
        GroupVersionKind(*kind.gvk), key.name, key.namespace, body, strategy="merge"
    )
    progress.success(f"{kind.kind} annotated")
    return await wait(opened, kind, key, Goal(requested=moment, patient=patient))


async def catch_up(
    opened: session.Session,
    kind: Kind[Any],
    key: ObjectKey,
    found: Json,
    *,
    patient: bool = False,
) -> Json:
    """Return a Kustomization when it has applied the revision of its source.

    A controller watches sources separately, so it may answer a request with the revision before.
    For other kinds, and for several sources, the revision cannot be compared.

    Raises:
        FailedError, DeadlineError: as for ``wait``.
    """
    sources = origins.references(found) if kind is KUSTOMIZATION else ()
    if len(sources) != 1:
        return found
    ((word, place),) = sources
    gvk = GroupVersionKind(*kindtree.require(word).gvk)
    while True:
        stored = status.revision(await opened.api.get(gvk, place.name, place.namespace))
        reached = status.revision(found)
        if reached == stored:
            return found
        progress.waiting(f"{kind.kind} {key} is at {reached}, its source at {stored}")
        found = await wait(opened, kind, key, Goal(beyond=reached, patient=patient))


async def live(opened: session.Session, kind: Kind[Any], key: ObjectKey, *, verb: str) -> Json:
    """Return the object, refused where it is missing or suspended."""
    try:
        obj = await opened.api.get(GroupVersionKind(*kind.gvk), key.name, key.namespace)
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'{kind.kind} object {key.name!r} not found in "{key.namespace}" namespace; '
            "choose another one with --namespace"
        ) from exc
    if status.suspended(obj):
        raise errors.UsageError(
            f"cannot {verb} {kind.kind} {key}: it is suspended; "
            f"`penstock resume {kindtree.spelled(kind)} {key.name} -n {key.namespace}` first"
        )
    return obj


async def wait(
    opened: session.Session, kind: Kind[Any], key: ObjectKey, goal: Goal = _READY
) -> Json:
    """Return the object when it is Ready for its generation, and fulfils the goal.

    Raises:
        FailedError: it failed; the message is the object's.
    """
    progress.waiting(f"waiting for {kind.kind} reconciliation")
    told = ""

    def verdict(obj: Json | None) -> bool:
        nonlocal told
        if obj is None:
            raise errors.FailedError(f"{kind.kind} {key} was deleted")
        ready = status.readiness(obj)
        failed = status.failed(obj, requested=goal.requested, begun=goal.begun)
        if failed and not (goal.patient and _tries_again(obj)):
            raise errors.FailedError(f"{kind.kind} {key} reconciliation failed: {ready.message}")
        if status.settled(obj, requested=goal.requested):
            return not goal.beyond or status.revision(obj) != goal.beyond
        if (failed or ready.status == "Unknown") and ready.message != told:
            told = ready.message
            progress.waiting(told)
        return False

    obj = await watching.until(
        opened,
        ObjectRef(GroupVersionKind(*kind.gvk), key.namespace, key.name),
        verdict,
        what=f"{kind.kind} {key} reconciliation has not finished",
    )
    progress.success(_reached(kind, obj or {}))
    return obj or {}


def _reached(kind: Kind[Any], obj: Json) -> str:
    """Return the result of a reconciliation for a message."""
    if kindtree.home_of(kind) == kindtree.IMAGE:
        return status.readiness(obj).message
    if not status.revision(obj):  # a Receiver, whose message has a path that is half a secret
        return f"{kind.kind} reconciled"
    verb = "fetched" if status.is_source(kind) else "applied"
    return f"{verb} revision {status.revision(obj)}"


def _tries_again(obj: Json) -> bool:
    return status.condition(obj, "Stalled").get("status") != "True"
