"""``penstock tree``: what an object has applied, and what those objects in turn applied."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from cli import examples, kindtree, loading, output, session, terminal
from crds.kind import Kind
from toolkit.objects import GroupVersionKind, Json, ObjectRef

if TYPE_CHECKING:
    from rich.tree import Tree

    from cli.trees import gathering
else:
    gathering = loading.Later("cli.trees.gathering")


@click.group("tree", cls=kindtree.AliasGroup, no_args_is_help=True)
def tree() -> None:
    """Show what an object has applied, as a tree."""


def _command(kind: Kind[Any], word: str) -> click.Command:
    @click.argument("name")
    @click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Format.")
    @session.options
    def command(**arguments: Any) -> None:
        connection = session.connection(arguments)

        async def work(opened: session.Session) -> Json:
            gvk = GroupVersionKind(*kind.gvk)
            root = ObjectRef(gvk, opened.namespace, arguments["name"])
            return await gathering.gather(opened, root)

        found = session.run(connection, work)
        if arguments["fmt"]:
            click.echo(output.render([found], arguments["fmt"], single=True), nl=False)
        else:
            show(found)

    return click.command(
        word,
        help=f"Show what a {kind.kind} has applied.",
        epilog=examples.example(f"penstock tree {word} apps"),
    )(command)


def show(node: Json) -> None:
    """Print the tree; lines are never wrapped."""
    # Rich, which help and other formats do not need, takes a third of the time of a command.
    from rich.console import Console  # noqa: PLC0415

    Console(highlight=False, markup=False).print(_rendered(node), soft_wrap=True)


def _rendered(node: Json) -> "Tree":
    from rich.tree import Tree  # noqa: PLC0415 - as in `show`

    shown = " ".join([str(node["resource"]["name"]), *_remarks(node)])
    branch = Tree(terminal.printable(shown))
    for below in node.get("resources", ()):
        branch.add(_rendered(below))
    return branch


def _remarks(node: Json) -> Iterator[str]:
    """Yield what is worth saying: that an object is current goes without it."""
    if node.get("health", "Current") not in ("Current", "Unknown"):
        yield f"({node['health']}: {node.get('message', '')})"
    if node.get("unread"):
        yield f"({node['unread']})"


kindtree.attach_appliers(tree, _command)
