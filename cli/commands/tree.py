"""``penstock tree``: what an object has applied, and what those objects in turn applied."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from apiserver.inventories import appliers
from cli import errors, examples, kindtree, output, session, terminal, window
from crds import KINDS
from crds.kind import Kind
from toolkit import inventory
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

if TYPE_CHECKING:
    from rich.tree import Tree

_DEPTH = 20


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
            return await gather(opened, root, above=frozenset())

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


async def gather(opened: session.Session, ref: ObjectRef, *, above: frozenset[ObjectRef]) -> Json:
    """Return ``{resource, resources}`` of the object and of all below it.

    An object that is below itself is shown there without its inventory; one that is gone too.

    Raises:
        UsageError: the root does not exist.
    """
    node: Json = {"resource": {"kind": ref.gvk.kind, "name": str(ref), "group": ref.gvk.group}}
    if not _has_inventory(ref) or ref in above or len(above) >= _DEPTH:
        return node
    try:
        obj = await opened.api.get(ref.gvk, ref.name, ref.namespace)
    except kube_errors.NotFoundError as exc:
        if above:
            return node
        raise errors.UsageError(
            f'{ref.gvk.kind} object {ref.name!r} not found in "{ref.namespace}" namespace; '
            "choose another one with --namespace"
        ) from exc
    entries = inventory.decode(dig(obj, "status", "inventory", "entries", default=()))
    below = await asyncio.gather(*(gather(opened, entry, above=above | {ref}) for entry in entries))
    grown = await _grown(opened, ref)
    node["resources"] = [{**one, **grown.get(one["resource"]["name"], {})} for one in below]
    return node


async def _grown(opened: session.Session, ref: ObjectRef) -> dict[str, Json]:
    """Return what the aggregated API knows beyond names: health, and what the objects own.

    Nothing where it is not served, or we may not ask.
    """
    name = appliers.inventory_name(ref.gvk.kind, ref.name)
    where = window.path("inventories", ref.namespace, name, "tree")
    found = await window.read_if_served(opened, where) or {}
    return {_named(node): _told(node) for node in found.get("objects") or ()}


def _told(node: Json) -> Json:
    told = {key: node[key] for key in ("health", "message", "unread") if node.get(key)}
    if node.get("children"):
        told["resources"] = [
            {"resource": _resource(child), **_told(child)} for child in node["children"]
        ]
    return told


def _resource(node: Json) -> Json:
    group, _, _ = str(node["apiVersion"]).rpartition("/")
    return {"kind": node["kind"], "name": _named(node), "group": group}


def _named(node: Json) -> str:
    gvk = GroupVersionKind.parse(str(node["apiVersion"]), str(node["kind"]))
    return str(ObjectRef(gvk, str(node.get("namespace") or ""), str(node["name"])))


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


def _has_inventory(ref: ObjectRef) -> bool:
    return any(
        (kind.group, kind.kind) == ref.gvk.group_kind and kindtree.APPLIERS in kind.categories
        for kind in KINDS
    )


kindtree.attach_appliers(tree, _command)
