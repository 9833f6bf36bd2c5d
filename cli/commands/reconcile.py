"""``penstock reconcile``: request a reconciliation, and wait for its end.

``--with-source`` reconciles the sources of the object first.
"""

from typing import Any, Final

import click

from cli import completing, examples, kindtree, origins, reconciling, session, status
from crds import HELM_RELEASE
from crds.kind import Kind
from toolkit.objects import ObjectKey


@click.group("reconcile", cls=kindtree.AliasGroup, no_args_is_help=True)
def reconcile() -> None:
    """Fetch or apply now, and wait until it is done."""


def _command(kind: Kind[Any], word: str) -> click.Command:
    def command(**arguments: Any) -> None:
        connection = session.connection(arguments)
        name, with_source = arguments["name"], arguments.get("with_source", False)
        also = [note for option, (note, _) in _ASKING.items() if arguments.get(option)]

        async def work(opened: session.Session) -> None:
            key = ObjectKey(opened.namespace, name)
            if with_source:
                await _with_source(opened, kind, key)
            found = await reconciling.request(opened, kind, key, also=also)
            if with_source:
                await reconciling.catch_up(opened, kind, key, found)

        session.run(connection, work)

    function = click.argument("name", shell_complete=completing.of(kind))(session.options(command))
    for option, (_, summary) in _ASKING.items() if kind is HELM_RELEASE else ():
        function = click.option(f"--{option}", is_flag=True, help=summary)(function)
    if kindtree.APPLIERS in kind.categories or origins.made_from_others(kind):
        function = click.option("--with-source", is_flag=True, help="Reconcile the source first.")(
            function
        )
    source = " --with-source" if kindtree.APPLIERS in kind.categories else ""
    return click.command(
        word,
        help=f"Reconcile {kindtree.article(kind)} {kind.kind} now.",
        epilog=examples.example(f"penstock reconcile {kindtree.spelled(kind)} apps{source}"),
    )(function)


_ASKING: Final = {
    "force": (status.FORCE_AT, "Install or upgrade once, whatever the state."),
    "reset": (status.RESET_AT, "Retry as if there had been no failures."),
}
"""Further requests for a HelmRelease: option, annotation, help."""


async def _with_source(opened: session.Session, kind: Kind[Any], key: ObjectKey) -> None:
    """Reconcile the sources of the object, the most distant first."""
    obj = await reconciling.live(opened, kind, key, verb="reconcile")
    for word, place in origins.references(obj):
        source = kindtree.require(word)
        if origins.derived(source.kind):
            await _with_source(opened, source, place)
        await reconciling.request(opened, source, place)


kindtree.attach_artifacts(
    reconcile, kindtree.attach(reconcile, _command, kinds=kindtree.RECONCILED)
)
