"""``penstock suspend`` and ``penstock resume``: stop reconciling an object, go on with it."""

from typing import Any

import click

from cli import completing, errors, examples, kindtree, progress, reconciling, session, status
from crds.kind import Kind
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectKey


@click.group("suspend", cls=kindtree.AliasGroup, no_args_is_help=True)
def suspend() -> None:
    """Stop reconciling; applied objects stay."""


@click.group("resume", cls=kindtree.AliasGroup, no_args_is_help=True)
def resume() -> None:
    """Resume reconciling, and wait until the object is ready."""


def _suspend_command(kind: Kind[Any], word: str) -> click.Command:
    @click.argument("names", nargs=-1, shell_complete=completing.of(kind))
    @click.option("--all", "everything", is_flag=True, help="All objects of the namespace.")
    @session.options
    def command(**arguments: Any) -> None:
        connection = session.connection(arguments)

        async def work(opened: session.Session) -> None:
            for key in await _chosen(opened, kind, **arguments):
                progress.action(
                    f"suspending {kind.singular} {key.name} in {key.namespace} namespace"
                )
                await _set(opened, kind, key, suspend=True)
                progress.success(f"{kind.singular} suspended")

        session.run(connection, work)

    spelled = kindtree.spelled(kind)
    return click.command(
        word,
        help=f"Suspend {kind.kind} objects.",
        epilog=examples.example(
            f"penstock suspend {spelled} apps", f"penstock suspend {spelled} --all"
        ),
    )(command)


def _resume_command(kind: Kind[Any], word: str) -> click.Command:
    @click.argument("names", nargs=-1, shell_complete=completing.of(kind))
    @click.option("--all", "everything", is_flag=True, help="All objects of the namespace.")
    @click.option("--wait/--no-wait", default=True, help="Wait until the object is ready.")
    @session.options
    def command(**arguments: Any) -> None:
        connection = session.connection(arguments)
        wait = arguments.pop("wait")

        async def work(opened: session.Session) -> None:
            keys = await _chosen(opened, kind, **arguments)
            awaited = []
            for key in keys:
                progress.action(f"resuming {kind.singular} {key.name} in {key.namespace} namespace")
                obj = await _set(opened, kind, key, suspend=False)
                progress.success(f"{kind.singular} resumed")
                if wait and not status.static(obj):
                    awaited.append(key)
            for key in awaited:
                await reconciling.wait(opened, kind, key, reconciling.Goal(begun=True))

        session.run(connection, work)

    spelled = kindtree.spelled(kind)
    return click.command(
        word,
        help=f"Resume {kind.kind} objects.",
        epilog=examples.example(
            f"penstock resume {spelled} apps", f"penstock resume {spelled} --all"
        ),
    )(command)


async def _chosen(
    opened: session.Session, kind: Kind[Any], *, names: tuple[str, ...], everything: bool
) -> list[ObjectKey]:
    if bool(names) == everything:
        raise errors.UsageError(f"name {kind.kind} objects, or use --all")
    if names:
        return [ObjectKey(opened.namespace, name) for name in names]
    objects = await opened.api.list(GroupVersionKind(*kind.gvk), opened.namespace)
    return [ObjectKey(opened.namespace, str(obj["metadata"]["name"])) for obj in objects]


async def _set(opened: session.Session, kind: Kind[Any], key: ObjectKey, *, suspend: bool) -> Json:
    body = status.suspension(kind, suspend=suspend)
    try:
        return await opened.api.patch(
            GroupVersionKind(*kind.gvk), key.name, key.namespace, body, strategy="merge"
        )
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'{kind.kind} object {key.name!r} not found in "{key.namespace}" namespace; '
            "choose another one with --namespace"
        ) from exc


kindtree.attach_artifacts(
    suspend, kindtree.attach(suspend, _suspend_command, kinds=kindtree.RECONCILED)
)
kindtree.attach_artifacts(
    resume, kindtree.attach(resume, _resume_command, kinds=kindtree.RECONCILED)
)
