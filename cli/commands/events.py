"""``penstock events``: what was said about an object and about its source, oldest first."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import click

from cli import age, examples, kindtree, origins, output, selectors, session, table
from crds.kind import Kind
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

EVENT: Final = GroupVersionKind("", "v1", "Event")
_FORMATS: Final = (*output.FORMATS, "wide")
COLUMNS: Final = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


@click.command("events", epilog=examples.example("penstock events --for ks/apps --types Warning"))
@click.option("--for", "about", metavar="KIND/NAME", help="Only this object and its source.")
@click.option(
    "--types",
    default="",
    metavar="TYPES",
    help="Only these types, such as Warning or Normal,Warning.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Events of every namespace.")
@click.option("--no-header", is_flag=True, help="Leave the header out.")
@click.option("-o", "--output", "fmt", type=click.Choice(_FORMATS), help="Format.")
@session.options
def events(
    about: str | None,
    types: str,
    *,
    all_namespaces: bool,
    no_header: bool,
    fmt: str | None,
    **arguments: Any,
) -> None:
    """Show events of Penstock's objects."""

    async def work(opened: session.Session) -> list[Json]:
        if about:
            return await _about(opened, *selectors.kind_and_name((about,)))
        return await opened.api.list(EVENT, "" if all_namespaces else opened.namespace)

    found = session.run(session.connection(arguments), work)
    wanted = {word.strip().lower() for word in types.split(",") if word.strip()}
    shown = [row for row in ours(found) if not wanted or str(row.get("type")).lower() in wanted]
    if fmt in output.FORMATS:
        click.echo(output.render(shown, str(fmt), single=False), nl=False)
        return
    namespaces = all_namespaces or fmt == "wide"
    text = render(shown, datetime.now(UTC), namespaces=namespaces, header=not no_header)
    click.echo(text or "no events\n", nl=False, err=not text)


async def _about(opened: session.Session, word: str, name: str) -> list[Json]:
    kind = kindtree.require(word)
    found = await _of(opened, kind, ObjectKey(opened.namespace, name))
    return found + await _of_sources(opened, kind, ObjectKey(opened.namespace, name))


async def _of_sources(opened: session.Session, kind: Kind[Any], key: ObjectKey) -> list[Json]:
    try:
        obj = await opened.api.get(GroupVersionKind(*kind.gvk), key.name, key.namespace)
    except kube_errors.NotFoundError:
        return []
    found = []
    for word, place in origins.references(obj):
        source = kindtree.require(word)
        found += await _of(opened, source, place)
        if origins.derived(source.kind):
            found += await _of_sources(opened, source, place)
    return found


async def _of(opened: session.Session, kind: Kind[Any], key: ObjectKey) -> list[Json]:
    selector = f"involvedObject.kind={kind.kind},involvedObject.name={key.name}"
    return await opened.api.list(EVENT, key.namespace, field_selector=selector)


def ours(found: Iterable[Json]) -> list[Json]:
    """Return the events about Penstock's kinds, oldest first."""
    kept = [row for row in found if kindtree.find(_kind(row)) is not None]
    return sorted(kept, key=last_seen)


def last_seen(event: Json) -> str:
    """Return the time of the latest occurrence, whichever of the three APIs wrote it."""
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",)):
        value = dig(event, *path)
        if value:
            return str(value)
    return str(dig(event, "metadata", "creationTimestamp", default=""))


def render(found: Iterable[Json], now: datetime, *, namespaces: bool, header: bool) -> str:
    """Return the table."""
    columns = ("NAMESPACE", *COLUMNS) if namespaces else COLUMNS
    rows = [_row(event, now) for event in found]
    cells = rows if namespaces else [row[1:] for row in rows]
    return table.render(columns, cells, show_header=header, breaks=True)


def _row(event: Json, now: datetime) -> tuple[str, ...]:
    count = int(dig(event, "series", "count", default=0) or event.get("count") or 1)
    seen = age.since(last_seen(event), now)
    return (
        str(dig(event, "metadata", "namespace", default="")),
        f"{seen} (x{count})" if count > 1 else seen,
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        f"{_kind(event)}/{dig(event, 'involvedObject', 'name', default='')}",
        str(event.get("message") or ""),
    )


def _kind(event: Json) -> str:
    return str(dig(event, "involvedObject", "kind", default=""))
