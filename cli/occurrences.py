"""Events of the API server about objects: list, follow, and format.

The events of a source also concern the objects that are built from it: ``of_object`` adds them.
Three APIs have written events, with the time in different fields.
"""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from cli import age, kindtree, origins, output, session, table, watching
from crds.kind import Kind
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

EVENT: Final = GroupVersionKind("", "v1", "Event")
COLUMNS: Final = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
Place = tuple[Kind[Any], ObjectKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which events: about an object and its sources or in a namespace, and of which types.

    An empty namespace is all of them; ``types`` are in lower case, none is all.
    """

    about: tuple[str, str] | None
    namespace: str
    types: frozenset[str]

    def admits(self, event: Json) -> bool:
        """Tell whether it is an event of one of the types about one of our kinds."""
        named = not self.types or str(event.get("type")).lower() in self.types
        return named and kindtree.find(_kind(event)) is not None


async def found(opened: session.Session, query: Query) -> list[Json]:
    """Return the events that there are, oldest first."""
    if query.about:
        events = [
            event
            for kind, key in await _places(opened, query.about)
            for event in await opened.api.list(
                EVENT, key.namespace, field_selector=_selector(kind, key)
            )
        ]
    else:
        events = await opened.api.list(EVENT, query.namespace)
    return sorted(filter(query.admits, events), key=last_seen)


async def follow(
    opened: session.Session, query: Query, *, namespaces: bool, header: bool, fmt: str
) -> None:
    """Print the existing events, then new ones, until interrupted."""
    places = await _places(opened, query.about) if query.about else None
    known = await found(opened, query)
    lines = table.Stream(_header(namespaces=namespaces), show_header=header)
    lines.fit(_cells(event, namespaces=namespaces) for event in known)
    for event in known:
        _print(event, lines, namespaces=namespaces, fmt=fmt)
    seen = {_version(event) for event in known}
    # The sources of an object may be elsewhere.
    everywhere = places is not None and len({key.namespace for _, key in places}) > 1
    stream = watching.changes(
        opened.api, EVENT, "" if everywhere else query.namespace, patient=False
    )
    async with aclosing(stream) as changes:
        async for change in changes:
            event = change.object
            if change.type == "DELETED" or _version(event) in seen or not query.admits(event):
                continue
            if places is None or _involved(event) in {(kind.kind, key) for kind, key in places}:
                _print(event, lines, namespaces=namespaces, fmt=fmt)


def _print(event: Json, lines: table.Stream, *, namespaces: bool, fmt: str) -> None:
    if fmt in output.FORMATS:
        click.echo(output.render([event], fmt, single=True), nl=False)
    else:
        click.echo(lines.render(_cells(event, namespaces=namespaces)), nl=False)


async def _places(opened: session.Session, about: tuple[str, str]) -> list[Place]:
    """Return an object and its sources."""
    word, name = about
    kind, key = kindtree.require(word), ObjectKey(opened.namespace, name)
    return [(kind, key), *await _sources(opened, kind, key)]


async def _sources(opened: session.Session, kind: Kind[Any], key: ObjectKey) -> list[Place]:
    try:
        obj = await opened.api.get(GroupVersionKind(*kind.gvk), key.name, key.namespace)
    except kube_errors.NotFoundError:
        return []
    found: list[Place] = []
    for word, place in origins.references(obj):
        source = kindtree.require(word)
        found.append((source, place))
        if origins.derived(source.kind):
            found += await _sources(opened, source, place)
    return found


def _selector(kind: Kind[Any], key: ObjectKey) -> str:
    return f"involvedObject.kind={kind.kind},involvedObject.name={key.name}"


def _involved(event: Json) -> tuple[str, ObjectKey]:
    involved = dig(event, "involvedObject", default={})
    key = ObjectKey(str(involved.get("namespace") or ""), str(involved.get("name") or ""))
    return str(involved.get("kind")), key


def _version(event: Json) -> tuple[str, str]:
    metadata = event["metadata"]
    return str(metadata.get("uid")), str(metadata.get("resourceVersion"))


def last_seen(event: Json) -> str:
    """Return the time of the latest occurrence, whichever of the three APIs wrote it."""
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",)):
        value = dig(event, *path)
        if value:
            return str(value)
    return str(dig(event, "metadata", "creationTimestamp", default=""))


def render(found: Iterable[Json], now: datetime, *, namespaces: bool, header: bool) -> str:
    """Return the table."""
    cells = [_cells(event, now, namespaces=namespaces) for event in found]
    return table.render(_header(namespaces=namespaces), cells, show_header=header, breaks=True)


def _header(*, namespaces: bool) -> tuple[str, ...]:
    return ("NAMESPACE", *COLUMNS) if namespaces else COLUMNS


def _cells(event: Json, now: datetime | None = None, *, namespaces: bool) -> tuple[str, ...]:
    row = _row(event, now or datetime.now(UTC))
    return row if namespaces else row[1:]


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
