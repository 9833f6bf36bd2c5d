"""The description of a served resource: names, columns, selectors, scope and handlers.

A resource is a row: discovery, OpenAPI, tables, selectors and routes are all derived from it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec
from aiohttp import web

from apiserver.call import Call
from toolkit.objects import Json

if TYPE_CHECKING:
    from apiserver.view import View

Verb = Literal["get", "list", "watch", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of ``kubectl get``; those with a priority above 0 are for ``-o wide``."""

    name: str
    cell: Callable[[Json], str | int]
    type: Literal["string", "integer", "date"] = "string"
    """The cell of a ``date`` is an RFC 3339 time; readers get its age at that moment."""
    format: Literal["", "name"] = ""
    """``name`` marks the primary identifier."""
    priority: int = 0
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter in the query of a request."""

    name: str
    type: Literal["string", "integer", "boolean"] = "string"
    required: bool = False
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """Something below an object, such as ``inventories/tree``."""

    name: str
    kind: str
    """The kind of its answer, for discovery; its schema is ``model``, or none for bytes."""
    verbs: tuple[Verb, ...]
    handle: Callable[[Call], Awaitable[web.StreamResponse]]
    model: type[msgspec.Struct] | None = None
    bytes_with: str = ""
    """Query parameter with which it answers with bytes after all."""
    parameters: tuple[Parameter, ...] = ()
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of object that is served; ``fields`` are what field selectors may name."""

    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...] = ("penstock",)
    model: type[msgspec.Struct]
    columns: tuple[Column, ...]
    fields: Mapping[str, Callable[[Json], str]] = field(default_factory=dict)
    """Beside ``metadata.name`` and ``metadata.namespace``, which every resource has."""
    view: "View"
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[Verb, ...] = ("get", "list", "watch")
