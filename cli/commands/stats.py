"""``penstock stats``: how many objects of each kind there are, and how they are."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import click

from cli import examples, kindtree, output, session, status, table
from cli.kindtree import AnyKind
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, dig

COLUMNS: Final = ("RECONCILERS", "RUNNING", "FAILING", "SUSPENDED", "STORAGE")
_UNITS: Final = "KMGTPE"
_STEP: Final = 1024


@click.command(
    "stats", epilog=examples.example("penstock stats -n apps", "penstock stats -A -o json")
)
@click.option("-A", "--all-namespaces", is_flag=True, help="List objects of all namespaces.")
@click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format.")
@session.options
def stats(*, all_namespaces: bool, fmt: str | None, **arguments: Any) -> None:
    """Count the objects of each kind: running, failing, suspended, and what they store."""

    async def work(opened: session.Session) -> list[Json]:
        namespace = "" if all_namespaces else opened.namespace
        return await asyncio.gather(*(_counted(opened, kind, namespace) for kind in kindtree.KINDS))

    found = session.run(session.connection(arguments), work)
    if fmt:
        click.echo(output.encode(found, fmt), nl=False)
        return
    rows = [
        (
            row["kind"],
            *(str(row[key]) for key in ("running", "failing", "suspended")),
            size(row["storage"]),
        )
        for row in found
    ]
    click.echo(table.render(COLUMNS, rows, show_header=True), nl=False)


async def _counted(opened: session.Session, kind: AnyKind, namespace: str) -> Json:
    try:
        objects = await opened.api.list(GroupVersionKind(*kind.gvk), namespace)
    except kube_errors.NoMatchError:
        objects = []
    return counted(kind, objects)


def counted(kind: AnyKind, objects: Sequence[Json]) -> Json:
    """Return the numbers of one kind; ``storage`` in bytes."""
    suspended = sum(status.suspended(obj) for obj in objects)
    failing = sum(status.condition(obj, "Ready").get("status") == "False" for obj in objects)
    stored = sum(int(dig(obj, "status", "artifact", "size", default=0) or 0) for obj in objects)
    return {
        "kind": kind.kind,
        "running": len(objects) - suspended,
        "failing": failing,
        "suspended": suspended,
        "storage": stored,
    }


def size(stored: int) -> str:
    """Return bytes as ``flux`` prints them: ``-``, ``512 B``, ``1.5 MiB``."""
    if not stored:
        return "-"
    if stored < _STEP:
        return f"{stored} B"
    exponent = (int(stored).bit_length() - 1) // 10
    return f"{stored / _STEP**exponent:.1f} {_UNITS[exponent - 1]}iB"
