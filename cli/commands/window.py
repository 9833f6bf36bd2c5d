"""What the aggregated API lists, for ``get``: kubectl can do all of it, too.

Tables are made by the server; here they are printed.
"""

from typing import Any

import click

from cli import examples, namespaces, output, progress, session, window

_FORMATS = (*output.FORMATS, "wide")


def listing(plural: str, what: str) -> click.Command:
    """Make ``get PLURAL [NAME]``."""

    @click.argument("name", default="")
    @click.option("--no-header", is_flag=True, help="Leave the header out.")
    @click.option("-o", "--output", "fmt", type=click.Choice(_FORMATS), help="Format.")
    @click.option("--field-selector", default="", metavar="SELECTOR", help="Such as status.x=y.")
    @click.option("-l", "--label-selector", default="", metavar="SELECTOR", help="Such as app=web.")
    @click.option("-A", "--all-namespaces", is_flag=True, help="Objects of every namespace.")
    @session.options
    def command(*, fmt: str | None, no_header: bool, **arguments: Any) -> None:
        connection = session.connection(arguments)
        asked = window.Listing(plural=plural, wide=fmt == "wide", header=not no_header, **arguments)

        async def work(opened: session.Session) -> str:
            if fmt in output.FORMATS:
                found = await window.objects(opened, asked)
                return output.render(found, str(fmt), single=bool(asked.name))
            text = await window.table_of(opened, asked)
            if not text and not asked.all_namespaces:
                await namespaces.require(opened)
            return text

        text = session.run(connection, work)
        if not text:
            progress.failure(f"no {plural} found")
        click.echo(text, nl=False)

    epilog = examples.example(f"penstock get {plural} -n apps", f"penstock get {plural} -A -o wide")
    return click.command(plural, help=what, epilog=epilog)(command)
