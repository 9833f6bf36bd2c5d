"""``penstock events``: the events of an object and of its source, oldest first."""

from datetime import UTC, datetime
from typing import Any, Final

import click

from cli import examples, namespaces, occurrences, output, selectors, session
from toolkit.objects import Json

_FORMATS: Final = (*output.FORMATS, "wide")


@click.command("events", epilog=examples.example("penstock events --for ks/apps --types Warning"))
@click.option(
    "--for", "about", metavar="KIND/NAME", help="Only events of this object and its source."
)
@click.option(
    "--types",
    default="",
    metavar="TYPES",
    help="Only these types, such as Warning or Normal,Warning.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="List events of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="After listing, watch for new events.")
@click.option("--no-header", is_flag=True, help="Do not print the header.")
@click.option("-o", "--output", "fmt", type=click.Choice(_FORMATS), help="Output format.")
@session.options
def events(  # noqa: PLR0913 -- one parameter per option
    about: str | None,
    types: str,
    *,
    all_namespaces: bool,
    watch: bool,
    no_header: bool,
    fmt: str | None,
    **arguments: Any,
) -> None:
    """Show events of Penstock's objects."""
    connection = session.connection(arguments)
    wide = all_namespaces or fmt == "wide"

    def query(opened: session.Session) -> occurrences.Query:
        return occurrences.Query(
            about=selectors.kind_and_name((about,)) if about else None,
            namespace="" if all_namespaces else opened.namespace,
            types=frozenset(word.strip().lower() for word in types.split(",") if word.strip()),
        )

    if watch:
        session.run(
            connection,
            lambda opened: occurrences.follow(
                opened, query(opened), namespaces=wide, header=not no_header, fmt=fmt or ""
            ),
            pace="follow",
        )
        return

    async def once(opened: session.Session) -> list[Json]:
        found = await occurrences.found(opened, query(opened))
        if not (found or all_namespaces):
            await namespaces.require(opened)
        return found

    shown = session.run(connection, once)
    if fmt in output.FORMATS:
        click.echo(output.render(shown, str(fmt), single=False), nl=False)
        return
    now = datetime.now(UTC)
    text = occurrences.render(shown, now, namespaces=wide, header=not no_header)
    click.echo(text or "no events\n", nl=False, err=not text)
