"""Rows and columns of ``kubectl get``.

A row is encoded once; only ages are filled in when it is read. A cell that cannot be computed is
marked and does not fail the list, because third parties may have written its values.
"""

import logging
import time
from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from apiserver import status
from apiserver.ages import age
from apiserver.item import Item
from apiserver.resource import Column
from toolkit.objects import Json, ObjectKey

logger = logging.getLogger(__name__)

_ENCODE: Final = msgspec.json.Encoder().encode

Include = Literal["None", "Metadata", "Object"]
"""The part of its object in a row."""


class Partial(Protocol):
    """The form of an object's metadata in a row."""

    name: tuple[str, ...]

    def listed(self, item: Item) -> bytes:
        """Return the metadata of an object."""

    def bookmark(self, metadata: Json) -> bytes:
        """Return metadata with nothing but a position."""


class Rows:
    """Makes rows, and tells which columns they have."""

    def __init__(self, columns: Sequence[Column], include: Include, partial: Partial) -> None:
        self.include = include
        self.definitions: Final = tuple(map(_definition, columns))
        self._columns = columns
        self._partial = partial
        self._name = ("row", include, *partial.name)

    def row(self, item: Item) -> bytes:
        """Return an object's row, as old as it is now."""
        return b"".join(self.parts(item))

    def parts(self, item: Item) -> Sequence[bytes]:
        """Return the bytes of the row; parts without an age are not copied."""
        parts = item.made(self._name, self._make)
        if len(parts) == 1:
            return parts
        now = time.time()
        return [
            age(part.decode(), now).encode() if index % 2 else part
            for index, part in enumerate(parts)
        ]

    def empty(self, metadata: Json) -> bytes:
        """Return a row about nothing but a position."""
        cells = [0 if column.type == "integer" else "" for column in self._columns]
        return b'{"cells":' + _ENCODE(cells) + _object(self._partial.bookmark(metadata))

    def _make(self, item: Item) -> Sequence[bytes]:
        """Return the row in parts; every second one is a date, of which the age is shown."""
        obj = item.obj  # decoded once for all cells
        parts: list[bytes] = []
        part = b'{"cells":['
        for index, column in enumerate(self._columns):
            part += b"," if index else b""
            value = _cell(column, item.key, obj)
            if column.type == "date":
                parts.extend((part + b'"', str(value).encode()))
                part = b'"'
            else:
                part += _ENCODE(value)
        return (*parts, part + b"]" + _object(self._shown(item)))

    def _shown(self, item: Item) -> bytes:
        match self.include:
            case "None":
                return b"null"
            case "Metadata":
                return self._partial.listed(item)
            case "Object":
                return item.json


def include_of(text: str) -> Include:
    """Read ``?includeObject=``.

    Raises:
        StatusError: 400 (``ValidateTableOptions``).
    """
    if text not in _INCLUDES:
        raise status.bad_request(
            "Unable to convert to Table as requested: includeObject: Invalid value:"
            f" \"{text[:64]}\": must be 'Metadata', 'Object', 'None', or empty"
        )
    return _INCLUDES[text]


_INCLUDES: Final[dict[str, Include]] = {
    "": "Metadata",
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
}


_FAULTS: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def _cell(column: Column, key: ObjectKey, obj: Json) -> str | int | None:
    try:
        return column.cell(obj)
    except _FAULTS as exc:
        logger.error(  # noqa: TRY400 - the object is wrong, not the code
            "cell left out",
            extra={"object": str(key), "column": column.name, "error": type(exc).__name__},
        )
        return None if column.type == "integer" else "<invalid>"


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _object(shown: bytes) -> bytes:
    return b',"object":' + shown + b"}"
