"""``penstock delete``: remove an object, after a question."""

from typing import Any

import click

from cli import asking, completing, examples, kindtree, progress, session
from cli.commands import export
from crds.kind import Kind
from toolkit.objects import GroupVersionKind


@click.group("delete", cls=kindtree.AliasGroup, no_args_is_help=True)
def delete() -> None:
    """Delete an object; objects that a Kustomization or HelmRelease applied go with it."""


def _command(kind: Kind[Any], word: str) -> click.Command:
    @click.argument("name", shell_complete=completing.of(kind))
    @click.option("-s", "--silent", is_flag=True, help="Do not ask for confirmation.")
    @session.options
    def command(*, name: str, silent: bool, **arguments: Any) -> None:
        async def work(opened: session.Session) -> None:
            (live,) = await export.chosen(opened, kind, name)
            if not silent:
                asking.require(
                    f"Are you sure you want to delete this {kind.singular}",
                    otherwise=f"{kind.kind} {name} was not deleted",
                )
            progress.action(f"deleting {kind.singular} {name} in {opened.namespace} namespace")
            await opened.api.delete(
                GroupVersionKind(*kind.gvk), name, opened.namespace, uid=live["metadata"]["uid"]
            )
            progress.success(f"{kind.singular} deleted")

        session.run(session.connection(arguments), work)

    return click.command(
        word,
        help=f"Delete {kindtree.article(kind)} {kind.kind}.",
        epilog=examples.example(f"penstock delete {kindtree.spelled(kind)} apps --silent"),
    )(command)


kindtree.attach_artifacts(delete, kindtree.attach(delete, _command))
