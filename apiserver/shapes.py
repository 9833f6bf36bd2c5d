"""The forms of objects in answers: whole, metadata only, or rows of a table.

``apiserver/pkg/endpoints/handlers/response.go``. A shape assembles answers from cached bytes of
each item, so nothing is decoded or encoded twice.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from apiserver import status
from apiserver.item import Item
from apiserver.negotiation import Accepted
from apiserver.resource import Resource
from apiserver.table import Rows, include_of
from toolkit.objects import Json

_ENCODE: Final = msgspec.json.Encoder().encode


class Shape(Protocol):
    """One form of objects in answers; ``name`` is equal for shapes with the same output."""

    name: tuple[str, ...]

    def parts(self, item: Item, *, first: bool = True) -> Sequence[bytes]:
        """Return the bytes of a single object; the long part is the item's, not a copy.

        In a watch, ``first`` tells that it is the first object.
        """

    def listed(self, item: Item) -> bytes:
        """Return an object as one of a list."""

    def frame(self, metadata: Json) -> tuple[bytes, bytes]:
        """Return the bytes before and after the objects of a list."""

    def bookmark(self, metadata: Json) -> bytes:
        """Return the object of a bookmark."""


class Whole:
    """Objects as they are."""

    name: tuple[str, ...] = ("",)

    def __init__(self, resource: Resource) -> None:
        view = resource.view
        self._type: Json = {"kind": view.kind, "apiVersion": view.api_version}
        self._list: Json = self._type | {"kind": f"{view.kind}List"}

    def parts(self, item: Item, *, first: bool = True) -> Sequence[bytes]:  # noqa: ARG002 - theirs
        """Return the object."""
        return (item.json,)

    def listed(self, item: Item) -> bytes:
        """Return the object."""
        return item.json

    def frame(self, metadata: Json) -> tuple[bytes, bytes]:
        """Return an ``…List``."""
        return _frame(self._list | {"metadata": metadata}, "items")

    def bookmark(self, metadata: Json) -> bytes:
        """Return an object with nothing but its position."""
        return _ENCODE(self._type | {"metadata": metadata})


class Metadata:
    """``PartialObjectMetadata``, for the garbage collector and metadata informers."""

    def __init__(self, api_version: str) -> None:
        self.name: tuple[str, ...] = ("PartialObjectMetadata", api_version)
        self._type: Json = {"kind": "PartialObjectMetadata", "apiVersion": api_version}
        self._list: Json = self._type | {"kind": "PartialObjectMetadataList"}

    def parts(self, item: Item, *, first: bool = True) -> Sequence[bytes]:  # noqa: ARG002 - theirs
        """Return the metadata."""
        return item.made(self.name, self._make)

    def listed(self, item: Item) -> bytes:
        """Return the metadata."""
        return item.made(self.name, self._make)[0]

    def frame(self, metadata: Json) -> tuple[bytes, bytes]:
        """Return a ``PartialObjectMetadataList``."""
        return _frame(self._list | {"metadata": metadata}, "items")

    def bookmark(self, metadata: Json) -> bytes:
        """Return metadata with nothing but a position."""
        return _ENCODE(self._type | {"metadata": metadata})

    def _make(self, item: Item) -> Sequence[bytes]:
        return (_ENCODE(self._type | {"metadata": item.obj["metadata"]}),)


class Table:
    """A ``Table``, which ``kubectl get`` prints; its columns come first and only once."""

    def __init__(self, rows: Rows, api_version: str) -> None:
        self.name: tuple[str, ...] = ("Table", api_version, rows.include)
        self._rows = rows
        self._type: Json = {"kind": "Table", "apiVersion": api_version}

    def parts(self, item: Item, *, first: bool = True) -> Sequence[bytes]:
        """Return a table of one row."""
        metadata = {"resourceVersion": str(item.version)}
        before, after = self._frame(metadata, first=first)
        return (before, *self._rows.parts(item), after)

    def listed(self, item: Item) -> bytes:
        """Return a row."""
        return self._rows.row(item)

    def frame(self, metadata: Json) -> tuple[bytes, bytes]:
        """Return a table with its columns."""
        return self._frame(metadata, first=True)

    def bookmark(self, metadata: Json) -> bytes:
        """Return a table whose only row carries a position; clients look for it there."""
        version = {"resourceVersion": metadata["resourceVersion"]}
        before, after = self._frame(version, first=False)
        return before + self._rows.empty(metadata) + after

    def _frame(self, metadata: Json, *, first: bool) -> tuple[bytes, bytes]:
        definitions: Sequence[Json] = self._rows.definitions if first else ()
        return _frame(self._type | {"metadata": metadata, "columnDefinitions": definitions}, "rows")


def single(resource: Resource, accepted: Accepted, include: str) -> Shape:
    """Return the shape of a get or a watch.

    Raises:
        StatusError: 406, a list was requested; 400, ``includeObject`` is not valid.
    """
    if accepted.form == "PartialObjectMetadataList":
        raise _unacceptable(accepted.form, f"not a list (*{resource.kind})")
    return _shape(resource, accepted, include)


def several(resource: Resource, accepted: Accepted, include: str) -> Shape:
    """Return the shape of a list.

    Raises:
        StatusError: as ``single``, the other way round.
    """
    if accepted.form == "PartialObjectMetadata":
        raise _unacceptable(accepted.form, f"a list (*{resource.kind}List)")
    return _shape(resource, accepted, include)


def _shape(resource: Resource, accepted: Accepted, include: str) -> Shape:
    match accepted.form:
        case "":
            return Whole(resource)
        case "Table":
            rows = Rows(resource.columns, include_of(include), Metadata(accepted.api_version))
            return Table(rows, accepted.api_version)
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            return Metadata(accepted.api_version)


def _frame(document: dict[str, Any], member: str) -> tuple[bytes, bytes]:
    """Return a document's text before and after the elements of its last member."""
    return _ENCODE(document)[:-1] + b',"' + member.encode() + b'":[', b"]}"


def _unacceptable(asked: str, what: str) -> status.StatusError:
    return status.StatusError(
        406,
        "NotAcceptable",
        f"you requested {asked}, but the requested object is {what}",
    )
