"""``penstock tree``: the objects that an applier has applied, and those that they applied."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from cli import completing, examples, kindtree, loading, output, session, terminal
from crds import ARTIFACT_GENERATOR
from crds.kind import Kind
from toolkit.objects import GroupVersionKind, Json, ObjectRef

if TYPE_CHECKING:
    from cli.trees import gathering
else:
    gathering = loading.Later("cli.trees.gathering")


_FLUX: Final = ".toolkit.fluxcd.io"


@click.group("tree", cls=kindtree.AliasGroup, no_args_is_help=True)
def tree() -> None:
    """Show what an object has applied, as a tree."""


def _command(kind: Kind[Any], word: str) -> click.Command:
    @click.argument("name", shell_complete=completing.of(kind))
    @click.option("--compact", is_flag=True, help="Show only objects of Flux's kinds.")
    @click.option(
        "-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format."
    )
    @session.options
    def command(**arguments: Any) -> None:
        connection = session.connection(arguments)

        async def work(opened: session.Session) -> Json:
            gvk = GroupVersionKind(*kind.gvk)
            root = ObjectRef(gvk, opened.namespace, arguments["name"])
            return await gathering.gather(opened, root)

        found = session.run(connection, work)
        if arguments["compact"]:
            found = compacted(found)
        if arguments["fmt"]:
            click.echo(output.render([found], arguments["fmt"], single=True), nl=False)
        else:
            show(found)

    return click.command(
        word,
        help=f"Show what a {kind.kind} has applied.",
        epilog=examples.example(f"penstock tree {word} apps"),
    )(command)


def compacted(node: Json) -> Json:
    """Return a tree without objects of other groups and their subtrees."""
    kept = [
        compacted(each)
        for each in node.get("resources", ())
        if each["resource"]["group"].endswith(_FLUX)
    ]
    return {**node, "resources": kept} if "resources" in node else node


def show(node: Json) -> None:
    """Print the tree, a line for each object; lines are never wrapped."""
    click.echo("\n".join(_lines(node)))


def _lines(node: Json) -> Iterator[str]:
    yield terminal.printable(" ".join([str(node["resource"]["name"]), *_remarks(node)]))
    below = node.get("resources", ())
    for number, each in enumerate(below, 1):
        first, rest = ("└── ", "    ") if number == len(below) else ("├── ", "│   ")
        for place, line in enumerate(_lines(each)):
            yield (rest if place else first) + line


def _remarks(node: Json) -> Iterator[str]:
    """Yield remarks about an object; a Current one has none."""
    if node.get("health", "Current") not in ("Current", "Unknown"):
        yield f"({node['health']}: {node.get('message', '')})"
    if node.get("unread"):
        yield f"({node['unread']})"


@click.command("generator", epilog=examples.example("penstock tree artifact generator apps"))
@click.argument("name", shell_complete=completing.of(ARTIFACT_GENERATOR))
@click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format.")
@session.options
def generator(*, name: str, fmt: str | None, **arguments: Any) -> None:
    """Show the ExternalArtifacts of an ArtifactGenerator."""

    async def work(opened: session.Session) -> Json:
        return await gathering.generated(opened, name)

    found = session.run(session.connection(arguments), work)
    if fmt:
        click.echo(output.render([found], fmt, single=True), nl=False)
    else:
        show(found)


artifact: Final = kindtree.AliasGroup(
    "artifact", help="Kinds that make artifacts.", no_args_is_help=True
)
artifact.add_command(generator)
artifact.add_aliases(generator, ("generators",))
kindtree.attach_appliers(tree, _command)
tree.add_command(artifact)
tree.add_aliases(artifact, ("artifacts",))
