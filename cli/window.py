"""Requests of commands to the aggregated API: paths, tables, and whether it is served."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from cli import errors, session, table
from toolkit.kube import errors as kube_errors
from toolkit.kube import mapper
from toolkit.objects import Json, dig

ROOT: Final = "/apis/gitops.penstock.dev/v1alpha1"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
Complete = Callable[[Json], Awaitable[None]]
"""Changes the cells of a ``Table`` whose rows carry whole objects."""
_AWAY: Final = frozenset({404, 503})
"""Without a reason it is not installed here, or not up; our own 404s have a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The list to show, and its format."""

    plural: str
    name: str = ""
    all_namespaces: bool = False
    label_selector: str = ""
    field_selector: str = ""
    wide: bool = False
    header: bool = True


def path(plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of a collection, an object, or its subresource."""
    parts = [ROOT]
    if namespace:
        parts.append(f"namespaces/{mapper.segment(namespace)}")
    parts.append(plural)
    parts += [mapper.segment(part) for part in (name, subresource) if part]
    return "/".join(parts)


async def table_of(
    opened: session.Session, listing: Listing, *, complete: Complete | None = None
) -> str:
    """Return the table that the server makes, as text; empty if there are no objects.

    ``complete`` changes the cells of rows that carry their whole objects.

    Raises:
        UsageError: the object does not exist.
        FailedError: the aggregated API is not there.
    """
    if complete is None:
        return _rendered(await _list(opened, listing, accept=_TABLE), listing)
    found = await _list(opened, listing, accept=_TABLE, include="Object")
    await complete(found)
    return _rendered(found, listing)


async def objects(opened: session.Session, listing: Listing) -> list[Json]:
    """Return the objects themselves; raises as ``table_of`` does."""
    found = await _list(opened, listing, accept="application/json")
    return list(found.get("items") or ()) if "items" in found else [found]


async def _list(
    opened: session.Session, listing: Listing, *, accept: str, include: str = ""
) -> Json:
    namespace = "" if listing.all_namespaces else opened.namespace
    query = {
        "labelSelector": listing.label_selector,
        "fieldSelector": listing.field_selector,
        "includeObject": include,
    }
    given = {key: value for key, value in query.items() if value}
    where = path(listing.plural, namespace, listing.name)
    found: Json = msgspec.json.decode(await read(opened, where, query=given, accept=accept))
    return found


async def read(
    opened: session.Session,
    where: str,
    *,
    query: dict[str, str] | None = None,
    accept: str = "application/json",
) -> bytes:
    """Read the answer at a path.

    Raises:
        UsageError: the named object does not exist, or is of another kind.
        FailedError: the aggregated API is not served.
    """
    try:
        return await opened.api.read(where, query=query or {}, accept=accept)
    except kube_errors.ApiError as exc:
        if exc.status not in _AWAY | {400, 409, 422}:
            raise
        if exc.status in _AWAY and not exc.api_reason:
            raise errors.FailedError(
                f"the API server does not serve gitops.penstock.dev ({exc}): is penstock-apiserver "
                "ready? `kubectl get apiservice v1alpha1.gitops.penstock.dev` tells why not"
            ) from exc
        remedy = (
            f' in "{opened.namespace}" namespace; choose another one with --namespace'
            if str(exc).endswith("not found")  # and not a revision of it
            else ""
        )
        raise errors.UsageError(f"{exc}{remedy}") from exc


async def read_if_served(opened: session.Session, where: str) -> Json | None:
    """Return the answer at a path; None if it is not served or the user may not read it."""
    try:
        return await opened.api.request("GET", where)
    except kube_errors.ForbiddenError:
        return None
    except kube_errors.ApiError as exc:
        if exc.status in _AWAY:
            return None
        raise


def _rendered(found: Json, listing: Listing) -> str:
    columns = [
        (number, column)
        for number, column in enumerate(found.get("columnDefinitions") or ())
        if listing.wide or not column.get("priority")
    ]
    header = [str(column["name"]).upper() for _, column in columns]
    lines = [
        [str(row["cells"][number]) for number, _ in columns] for row in found.get("rows") or ()
    ]
    if listing.all_namespaces:
        header.insert(0, "NAMESPACE")
        for line, row in zip(lines, found.get("rows") or (), strict=True):
            line.insert(0, str(dig(row, "object", "metadata", "namespace", default="")))
    return table.render(header, lines, show_header=listing.header)
