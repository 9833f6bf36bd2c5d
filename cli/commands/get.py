"""``penstock get``: the objects of a kind, or of all kinds, with their status."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from apiserver.cells import shorten
from cli import (
    age,
    columns,
    completing,
    errors,
    examples,
    kindtree,
    namespaces,
    origins,
    output,
    progress,
    selectors,
    session,
    status,
    table,
    watching,
)
from cli.commands import window
from crds import ARTIFACT_GENERATOR, RECEIVER
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, dig, key_of

WIDE: Final = ("AGE", "SOURCE")
_FORMATS: Final = (*output.FORMATS, "wide")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The objects to list, and the format."""

    kinds: tuple[kindtree.AnyKind, ...]
    name: str
    all_namespaces: bool
    label_selector: str
    status_selector: selectors.StatusSelector | None
    format: str
    wide: bool
    header: bool
    show_source: bool = False

    @property
    def prefixed(self) -> bool:
        """Tell whether names carry their kind, because several kinds are listed."""
        return len(self.kinds) > 1


class _Verb(kindtree.AliasGroup):
    """Takes ``get artifacts generators``, as ``flux`` has it, for the kind of that name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the kind behind two words (click)."""
        if args[0] in _STORED and args[1:2] and args[1] in _GENERATORS:
            args = ["sources", ARTIFACT_GENERATOR.singular, *args[2:]]
        return super().resolve_command(ctx, args)


_STORED: Final = ("artifact", "artifacts")
_GENERATORS: Final = ("generator", "generators")


@click.group("get", cls=_Verb, no_args_is_help=True)
def get() -> None:
    """List objects with their revision, readiness and message."""


def _command(
    kinds: Sequence[kindtree.AnyKind], word: str, summary: str, *example: str
) -> click.Command:
    """Make ``get WORD [NAME]``."""

    @click.option("-w", "--watch", is_flag=True, help="After listing, watch for changes.")
    @click.option("--no-header", is_flag=True, help="Do not print the header.")
    @click.option("-o", "--output", "fmt", type=click.Choice(_FORMATS), help="Output format.")
    @click.option(
        "--status-selector",
        metavar="TYPE=STATUS",
        help="Only objects with this condition, such as ready=false.",
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
    def command(**arguments: Any) -> None:
        connection = session.connection(arguments)
        watch = arguments.pop("watch")
        query = _query(tuple(kinds), **arguments)
        if watch:
            session.run(connection, lambda opened: follow(opened, query), pace="follow")
        else:
            click.echo(session.run(connection, lambda opened: once(opened, query)), nl=False)

    if len(kinds) == 1 and kindtree.APPLIERS in kinds[0].categories:
        command = click.option(
            "--show-source", is_flag=True, help="Show the source of each object."
        )(command)
    if len(kinds) == 1:
        command = click.argument("name", default="", shell_complete=completing.of(kinds[0]))(
            command
        )
    return click.command(word, help=summary, epilog=examples.example(*example))(command)


def _query(
    kinds: tuple[kindtree.AnyKind, ...],
    *,
    status_selector: str | None,
    fmt: str | None,
    no_header: bool,
    name: str = "",
    **selection: Any,
) -> Query:
    return Query(
        kinds=kinds,
        name=name,
        status_selector=selectors.StatusSelector.parse(status_selector)
        if status_selector
        else None,
        format=fmt if fmt in output.FORMATS else "",
        wide=fmt == "wide",
        header=not no_header,
        **selection,
    )


async def once(opened: session.Session, query: Query) -> str:
    """List objects and return the output.

    Raises:
        UsageError: the named object or the namespace does not exist.
    """
    lists = await asyncio.gather(*(_list(opened, query, kind) for kind in query.kinds))
    if not any(lists) and not query.all_namespaces:
        await namespaces.require(opened)
    if query.name and not any(lists) and query.status_selector is None:
        kind = query.kinds[0]
        raise errors.UsageError(
            f'{kind.kind} object {query.name!r} not found in "{opened.namespace}" namespace; '
            "choose another one with --namespace"
        )
    if query.format:
        return output.render(
            [obj for rows in lists for obj in rows], query.format, single=bool(query.name)
        )
    if not any(lists):
        _tell_none(opened, query)
    tables = [
        _table([(kind, obj) for obj in rows], query)
        for kind, rows in zip(query.kinds, lists, strict=True)
    ]
    return "\n".join(text for text in tables if text)


async def _list(opened: session.Session, query: Query, kind: kindtree.AnyKind) -> list[Json]:
    try:
        objects = await opened.api.list(
            GroupVersionKind(*kind.gvk),
            "" if query.all_namespaces else opened.namespace,
            label_selector=query.label_selector,
            field_selector=f"metadata.name={query.name}" if query.name else "",
        )
    except kube_errors.NoMatchError:
        if query.prefixed:
            return []
        raise
    return [obj for obj in objects if _wanted(obj, query)]


def _wanted(obj: Json, query: Query) -> bool:
    return query.status_selector is None or query.status_selector.matches(obj)


def _tell_none(opened: session.Session, query: Query) -> None:
    """Tell that the list is empty, which is no failure."""
    what = "" if query.prefixed else f"{query.kinds[0].kind} "
    where = "any namespace" if query.all_namespaces else f'"{opened.namespace}" namespace'
    progress.failure(f"no {what}objects found in {where}")


def _table(rows: Sequence[tuple[kindtree.AnyKind, Json]], query: Query) -> str:
    shown = _shown(query, rows[0][0].kind) if rows else columns.COMMON
    cells = [row(kind, obj, query, shown) for kind, obj in rows]
    return table.render(_header(query, shown), cells, show_header=query.header)


def _shown(query: Query, kind: str) -> tuple[columns.Column, ...]:
    return (*((columns.SOURCE,) if query.show_source else ()), *columns.of(kind))


def _header(query: Query, shown: Sequence[columns.Column]) -> tuple[str, ...]:
    names = ("NAME", *(name for name, _ in shown), "READY", "MESSAGE")
    names = (*names, *WIDE) if query.wide else names
    return ("NAMESPACE", *names) if query.all_namespaces else names


def row(
    kind: kindtree.AnyKind, obj: Json, query: Query, shown: Sequence[columns.Column]
) -> tuple[str, ...]:
    """Return the cells of one object."""
    key, ready = key_of(obj), status.readiness(obj)
    cells = (
        f"{kind.singular}/{key.name}" if query.prefixed else key.name,
        *(cell(obj) for _, cell in shown),
        ready.status,
        _message(obj, ready),
        *(_wide(obj) if query.wide else ()),
    )
    return (key.namespace, *cells) if query.all_namespaces else cells


def _message(obj: Json, ready: status.Readiness) -> str:
    """Return the message; on a terminal none that repeats the revision of a ready object."""
    # The message of a Receiver is its path, which a sender needs whole.
    text = ready.message if obj.get("kind") == RECEIVER.kind else shorten(ready.message)
    revision = shorten(status.revision(obj))
    well = ready.status == "True" and columns.repeats(text, revision)
    return "" if well and table.terminal() else text


def _wide(obj: Json) -> tuple[str, str]:
    """Return the age, and the source of the object: an address, or other objects."""
    born = str(dig(obj, "metadata", "creationTimestamp", default=""))
    address = dig(obj, "spec", "url", default="") or dig(obj, "spec", "endpoint", default="")
    sources = (f"{word}/{place}" for word, place in origins.references(obj))
    return age.since(born, datetime.now(UTC)), str(address) or ", ".join(sources)


async def follow(opened: session.Session, query: Query) -> None:
    """Print the existing objects and then a line per change, until interrupted."""
    # Lines of several kinds are mixed, below one header.
    shown = columns.COMMON if query.prefixed else _shown(query, query.kinds[0].kind)
    lines = table.Stream(_header(query, shown), show_header=query.header)
    if not query.format:
        lists = await asyncio.gather(*(_list(opened, query, kind) for kind in query.kinds))
        for kind, objects in zip(query.kinds, lists, strict=True):
            lines.fit(row(kind, obj, query, shown) for obj in objects)
    async with asyncio.TaskGroup() as group:
        for kind in query.kinds:
            group.create_task(_follow_kind(opened, query, kind, lines, shown))


async def _follow_kind(
    opened: session.Session,
    query: Query,
    kind: kindtree.AnyKind,
    lines: table.Stream,
    shown: Sequence[columns.Column],
) -> None:
    stream = watching.changes(
        opened.api,
        GroupVersionKind(*kind.gvk),
        "" if query.all_namespaces else opened.namespace,
        name=query.name,
        label_selector=query.label_selector,
        patient=False,
    )
    async with aclosing(stream) as changes:
        async for change in changes:
            if not _wanted(change.object, query):
                continue
            if query.format:
                text = output.render([change.object], query.format, single=True)
            else:
                text = lines.render(row(kind, change.object, query, shown))
            click.echo(text, nl=False)


def _of_kind(kind: kindtree.AnyKind, word: str) -> click.Command:
    group = kindtree.home_of(kind)
    home = f"{group.spelled(plural=True)} " if group else ""
    return _command(
        (kind,),
        word,
        f"Show {kind.kind} objects.",
        f"penstock get {home}{word} -n apps",
        f"penstock get {home}{word} -A --status-selector ready=false -o wide",
    )


_ALL: Final = {
    kindtree.SOURCE: "Show the sources of every kind.",
    kindtree.IMAGE: "Show the objects of every kind of images.",
}
for _home, _group in kindtree.attach(get, _of_kind, plural=True).items():
    _group.add_command(
        _command(
            [kind for kind in kindtree.KINDS if kindtree.home_of(kind) == _home],
            "all",
            _ALL[_home],
            f"penstock get {_home.spelled(plural=True)} all -A",
        )
    )
get.add_command(
    _command(kindtree.KINDS, "all", "Show the objects of every kind.", "penstock get all -A")
)
_INVENTORIES = window.listing("inventories", "List what was applied, with its health and drift.")
_ARTIFACTS = window.listing("artifacts", "List the artifacts that are stored for each source.")


get.add_command(_INVENTORIES)
get.add_aliases(_INVENTORIES, ("inventory", "inv"))
get.add_command(_ARTIFACTS)
get.add_aliases(_ARTIFACTS, ("artifact", "art"))
