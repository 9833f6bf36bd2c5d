"""Lists of the aggregated API for ``get``; kubectl can show all of them, too.

The server makes the tables; this module prints them. Inventories are completed with the objects of
other clusters, which the server does not observe.
"""

from typing import TYPE_CHECKING, Any, Final

import click

from cli import completing, examples, loading, namespaces, output, progress, session, window
from toolkit.objects import Json, dig

if TYPE_CHECKING:
    from cli.trees import observing
else:
    observing = loading.Later("cli.trees.observing")

INVENTORIES: Final = "inventories"
_FORMATS: Final = (*output.FORMATS, "wide")


def listing(plural: str, what: str) -> click.Command:
    """Make ``get PLURAL [NAME]``."""

    @click.argument("name", default="", shell_complete=completing.served(plural))
    @click.option("--no-header", is_flag=True, help="Do not print the header.")
    @click.option("-o", "--output", "fmt", type=click.Choice(_FORMATS), help="Output format.")
    @click.option(
        "--field-selector",
        default="",
        metavar="SELECTOR",
        help="Only objects with these fields, such as metadata.name=web.",
    )
    @click.option(
        "-l",
        "--label-selector",
        default="",
        metavar="SELECTOR",
        help="Only objects with these labels, such as app=web.",
    )
    @click.option("-A", "--all-namespaces", is_flag=True, help="List objects of all namespaces.")
    @session.options
    def command(*, fmt: str, no_header: bool, far: bool = False, **arguments: Any) -> None:
        connection = session.connection(arguments)
        asked = window.Listing(plural=plural, wide=fmt == "wide", header=not no_header, **arguments)

        async def work(opened: session.Session) -> str:
            text = await _shown(opened, asked, fmt, far=far)
            if not text and not asked.all_namespaces:
                await namespaces.require(opened)
            return text

        text = session.run(connection, work)
        if not text:
            progress.failure(f"no {plural} found")
        click.echo(text, nl=False)

    if plural == INVENTORIES:
        command = click.option(
            "--remote/--no-remote",
            "far",
            default=True,
            help="Also observe objects on other clusters, with your own permissions.",
            show_default=True,
        )(command)
    epilog = examples.example(f"penstock get {plural} -n apps", f"penstock get {plural} -A -o wide")
    return click.command(plural, help=what, epilog=epilog)(command)


async def _shown(opened: session.Session, asked: window.Listing, fmt: str, *, far: bool) -> str:
    if fmt not in output.FORMATS:
        return await window.table_of(opened, asked, complete=_completer(opened) if far else None)
    found = await window.objects(opened, asked)
    if far and any(map(_is_remote, found)):
        found = await observing.completed(opened.api, found)
    return output.render(found, fmt, single=bool(asked.name))


def _completer(opened: session.Session) -> window.Complete:
    """Return the function that completes a table; it loads nothing unless an inventory needs it."""

    async def complete(table: Json) -> None:
        if any(_is_remote(row["object"]) for row in table.get("rows") or ()):
            await observing.complete(opened.api, table)

    return complete


def _is_remote(inventory: Json) -> bool:
    return bool(dig(inventory, "spec", "remote"))
