"""``penstock reconcile``: ask for a reconciliation now, and wait for its end.

The request is Flux's annotation; the answer is ``status.lastHandledReconcileAt`` (flux2
``cmd/flux/reconcile.go``). The waiting is a watch.
"""

from datetime import UTC, datetime
from typing import Any

import click

from cli import errors, kindtree, progress, session, status, watching
from crds.kind import Kind
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef, dig


@click.group("reconcile", cls=kindtree.AliasGroup, no_args_is_help=True)
def reconcile() -> None:
    """Fetch or apply now, and wait until that is done."""


def _command(kind: Kind[Any], word: str) -> click.Command:
    def command(**arguments: Any) -> None:
        connection = session.connection(arguments)
        name, with_source = arguments["name"], arguments.get("with_source", False)

        async def work(opened: session.Session) -> None:
            key = ObjectKey(opened.namespace, name)
            if with_source:
                await _with_source(opened, kind, key)
            await request(opened, kind, key)

        session.run(connection, work)

    function = click.argument("name")(session.options(command))
    if not status.is_source(kind):
        function = click.option("--with-source", is_flag=True, help="Reconcile the source first.")(
            function
        )
    return click.command(word, help=f"Reconcile {_article(kind)} {kind.kind} now.")(function)


def _article(kind: Kind[Any]) -> str:
    return "an" if kind.kind[0] in "AEIOU" else "a"


async def request(opened: session.Session, kind: Kind[Any], key: ObjectKey) -> Json:
    """Ask for one reconciliation and return the object once that has succeeded.

    An object that nobody reconciles is returned as it is.

    Raises:
        UsageError: the object is suspended or does not exist.
        FailedError: the reconciliation failed.
        DeadlineError: it did not end within the session's timeout.
    """
    obj = await live(opened, kind, key, verb="reconcile")
    if status.static(obj):
        progress.success(f"{kind.kind} {key.name} is read when it is used; nobody reconciles it")
        return obj
    moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    progress.action(f"annotating {kind.kind} {key.name} in {key.namespace} namespace")
    body: Json = {"metadata": {"annotations": {status.REQUESTED_AT: moment}}}
    await opened.api.patch(
        GroupVersionKind(*kind.gvk), key.name, key.namespace, body, strategy="merge"
    )
    progress.success(f"{kind.kind} annotated")
    return await wait(opened, kind, key, requested=moment)


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
    opened: session.Session, kind: Kind[Any], key: ObjectKey, *, requested: str = ""
) -> Json:
    """Return the object once it is Ready for its generation, and for the request if given.

    Raises:
        FailedError: it failed; the message is the object's own.
    """
    progress.waiting(f"waiting for {kind.kind} reconciliation")
    told = ""

    def verdict(obj: Json | None) -> bool:
        nonlocal told
        if obj is None:
            raise errors.FailedError(f"{kind.kind} {key} was deleted")
        ready = status.readiness(obj)
        if status.failed(obj, requested=requested):
            raise errors.FailedError(f"{kind.kind} {key} reconciliation failed: {ready.message}")
        if status.settled(obj, requested=requested):
            return True
        if ready.status == "Unknown" and ready.message != told:
            told = ready.message
            progress.waiting(told)
        return False

    obj = await watching.until(
        opened,
        ObjectRef(GroupVersionKind(*kind.gvk), key.namespace, key.name),
        verdict,
        what=f"{kind.kind} {key} reconciliation has not finished",
    )
    verb = "fetched" if status.is_source(kind) else "applied"
    progress.success(f"{verb} revision {status.revision(obj or {})}")
    return obj or {}


async def _with_source(opened: session.Session, kind: Kind[Any], key: ObjectKey) -> None:
    obj = await live(opened, kind, key, verb="reconcile")
    for reference in source_references(obj):
        source = kindtree.require(str(reference.get("kind")))
        namespace = str(reference.get("namespace") or key.namespace)
        await request(opened, source, ObjectKey(namespace, str(reference.get("name"))))


def source_references(obj: Json) -> tuple[Json, ...]:
    """Return what the object is built from: ``sourceRef`` and every one of ``sourceRefs``."""
    single = dig(obj, "spec", "sourceRef")
    several = dig(obj, "spec", "sourceRefs", default=())
    return ((single,) if single else ()) + tuple(several)


kindtree.attach(reconcile, _command, kinds=kindtree.RECONCILED)
