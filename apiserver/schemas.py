"""Named schemas of the models, which may refer to each other and to themselves.

Names are those of the structs; if two structs share one, the later gets the name of its package
too. Every reference is created together with its target.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from apiserver.discovery import VERSION
from apiserver.resource import Resource
from apiserver.status import GROUP
from crds import meta, schema
from toolkit.objects import Json

PREFIX: Final = f"dev.penstock.gitops.{VERSION}"
V3: Final = "#/components/schemas/"
V2: Final = "#/definitions/"


class Schemas:
    """The definitions below ``at``, which depends on the version of OpenAPI."""

    def __init__(self, resources: Sequence[Resource], at: str) -> None:
        self._at = at
        self._names: dict[type[msgspec.Struct], str] = {meta.ObjectMeta: name("ObjectMeta")}
        self.found: Json = {name("ObjectMeta"): _OBJECT_META, name("ListMeta"): _LIST_META}
        for resource in resources:
            self._object(resource.kind, resource.model)
            self.found[name(f"{resource.kind}List")] = self._list(resource.kind)
            for each in resource.subresources:
                if each.model is not None:
                    self._object(each.kind, each.model)

    def of(self, kind: str) -> Json:
        """Return a reference to a kind.

        Raises:
            KeyError: there is no schema of that kind.
        """
        found = name(kind)
        if found not in self.found:
            raise KeyError(found)
        reference = {"$ref": self._at + found}
        # Version 3 allows no siblings of a reference (OpenAPI 3.0, Reference Object).
        return {"allOf": [reference]} if self._at == V3 else reference

    def _object(self, kind: str, model: type[msgspec.Struct]) -> None:
        body = self._add(kind, model)
        body["properties"] |= {
            "apiVersion": _text(_API_VERSION),
            "kind": _text(_KIND),
            "metadata": self.of("ObjectMeta") | {"description": "Standard object's metadata."},
        }
        body |= gvks(kind)

    def _list(self, kind: str) -> Json:
        return {
            "type": "object",
            "description": f"{kind}List is a list of {kind}.",
            "required": ["items"],
            "properties": {
                "apiVersion": _text(_API_VERSION),
                "kind": _text(_KIND),
                "metadata": self.of("ListMeta") | {"description": "Standard list metadata."},
                "items": {"type": "array", "description": "The objects.", "items": self.of(kind)},
            },
            **gvks(f"{kind}List"),
        }

    def _add(self, kind: str, model: type[msgspec.Struct]) -> Json:
        self._names[model] = name(kind)
        body: Json = self.found.setdefault(name(kind), {})
        body |= schema.shallow(model, self._nested)
        return body

    def _nested(self, model: type[msgspec.Struct]) -> Json:
        if model not in self._names:
            kind = model.__name__
            if name(kind) in self.found:
                package = model.__module__.split(".")[-2]
                kind = f"{package.title()}{kind}"
            self._add(kind, model)
        return self.of(self._names[model].removeprefix(f"{PREFIX}."))


def name(kind: str) -> str:
    """Return the name of a kind's schema."""
    return f"{PREFIX}.{kind}"


def gvk(kind: str) -> Json:
    """Return a kind with its group and version."""
    return {"group": GROUP, "version": VERSION, "kind": kind}


def gvks(kind: str) -> dict[str, Any]:
    """Return the extension by which a kind's schema is found."""
    return {"x-kubernetes-group-version-kind": [gvk(kind)]}


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _texts(description: str) -> Json:
    return {
        "type": "object",
        "description": description,
        "additionalProperties": {"type": "string"},
    }


_API_VERSION: Final = "Version of the API that this object is written in, as `<group>/<version>`."
_KIND: Final = "Kind of the object."
_OBJECT_META: Final[Json] = {
    "type": "object",
    "description": "Metadata of an object; those of what it is computed from, as far as they fit.",
    "properties": {
        "name": _text("Name, unique in the namespace."),
        "namespace": _text("Namespace of what the object is about."),
        "uid": _text("Stays the same as long as the object does."),
        "resourceVersion": _text("Changes with every change of the object; watches begin there."),
        "generation": {"type": "integer", "format": "int64", "description": "Generation."},
        "creationTimestamp": {
            "type": "string",
            "format": "date-time",
            "description": "When the object came to be.",
        },
        "labels": _texts("Labels, for selectors."),
        "annotations": _texts("Annotations."),
    },
}
_LIST_META: Final[Json] = {
    "type": "object",
    "description": "Metadata of a list.",
    "properties": {
        "resourceVersion": _text("State of the list; a watch from there misses nothing."),
        "continue": _text("Where the rest of the list begins; empty at its end."),
        "remainingItemCount": {
            "type": "integer",
            "format": "int64",
            "description": "How many objects follow.",
        },
    },
}
