"""What the objects look like: OpenAPI v3 and v2, made from the models and their docstrings.

kube-apiserver merges what every extension says into one document for the whole cluster, and tools
that meet a ``$ref`` to nothing stop working for all of it (argo-cd#22757, kueue#8873). So each
definition is inlined but for the metadata, every reference is to one of the definitions here, and
names are our own, so that merging renames nothing.

``kubectl explain`` finds a kind by ``x-kubernetes-group-version-kind``, of the operations and of
the definition. What is written here is about reading: nothing can be written.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aiohttp import web

from apiserver import documents
from apiserver.discovery import GROUP_VERSION, VERSION
from apiserver.documents import Document
from apiserver.resource import Resource, Subresource
from apiserver.status import GROUP
from crds import schema
from toolkit.objects import Json

PREFIX: Final = f"dev.penstock.gitops.{VERSION}"
BASE: Final = f"apis/{GROUP_VERSION}"
_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
_INFO: Final = {"title": "Penstock", "version": VERSION}
_JSON: Final = "application/json"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_SAFE: Final = re.compile(r"[^A-Za-z0-9]+")


class OpenAPI:
    """The documents of these resources."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._v3 = Document.of(v3(resources))
        self._v2 = Document.of(v2(resources))
        path = f"/openapi/v3/{BASE}?hash={self._v3.tag}"
        self._root = Document.of({"paths": {BASE: {"serverRelativeURL": path}}})

    async def root(self, request: web.Request) -> web.Response:
        """Answer ``/openapi/v3``."""
        documents.plain_json_or_refuse(request)
        return self._root.answer(request)

    async def v3(self, request: web.Request) -> web.Response:
        """Answer ``/openapi/v3/apis/<group>/<version>``; with its hash it never changes."""
        documents.plain_json_or_refuse(request)
        return self._v3.answer(request, immutable=request.query.get("hash") == self._v3.tag)

    async def v2(self, request: web.Request) -> web.Response:
        """Answer ``/openapi/v2``."""
        documents.plain_json_or_refuse(request)
        return self._v2.answer(request)


def v3(resources: Sequence[Resource]) -> Json:
    """Return the document of the group version."""
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": dict(_paths(resources, _V3)),
        "components": {"schemas": definitions(resources, _V3)},
    }


def v2(resources: Sequence[Resource]) -> Json:
    """Return the whole document."""
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": dict(_paths(resources, _V2)),
        "definitions": definitions(resources, _V2),
    }


def definitions(resources: Sequence[Resource], at: str) -> Json:
    """Return what is referred to, below ``at``."""
    found: Json = {
        f"{PREFIX}.ObjectMeta": _OBJECT_META,
        f"{PREFIX}.ListMeta": _LIST_META,
    }
    for resource in resources:
        found[_name(resource.kind)] = _object(resource, at)
        found[_name(f"{resource.kind}List")] = _list(resource, at)
        for each in resource.subresources:
            if each.model is not None:
                found[_name(each.kind)] = _document(each)
    return found


def _object(resource: Resource, at: str) -> Json:
    body = schema.schema_of(resource.model)
    body["properties"]["metadata"] = _ref(at, "ObjectMeta") | {
        "description": "Standard object's metadata."
    }
    return body | _gvk(resource.kind)


def _list(resource: Resource, at: str) -> Json:
    return {
        "type": "object",
        "description": f"{resource.kind}List is a list of {resource.kind}.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "metadata": _ref(at, "ListMeta") | {"description": "Standard list metadata."},
            "items": {
                "type": "array",
                "description": "The objects.",
                "items": {"$ref": at + _name(resource.kind)},
            },
        },
        **_gvk(f"{resource.kind}List"),
    }


def _document(subresource: Subresource) -> Json:
    if subresource.model is None:
        raise AssertionError("only those with a model have a definition")
    body = schema.schema_of(subresource.model)
    body["properties"]["metadata"] |= {_PRESERVE: True}
    return body | _gvk(subresource.kind)


def _paths(resources: Sequence[Resource], at: str) -> Iterator[tuple[str, Json]]:
    for resource in resources:
        plural, kind = resource.plural, resource.kind
        collection = f"/{BASE}/namespaces/{{namespace}}/{plural}"
        listed = {"$ref": at + _name(f"{kind}List")}
        for path, fixed in ((f"/{BASE}/{plural}", ()), (collection, ("namespace",))):
            operation = _operation(resource, "list", path, listed, at=at)
            yield path, {"get": operation, "parameters": _parameters(fixed, _LIST_QUERY, at=at)}
        path = f"{collection}/{{name}}"
        operation = _operation(resource, "get", path, {"$ref": at + _name(kind)}, at=at)
        yield path, {"get": operation, "parameters": _parameters(_FIXED, (), at=at)}
        for each in resource.subresources:
            yield f"{path}/{each.name}", _subpath(resource, each, f"{path}/{each.name}", at)


def _subpath(resource: Resource, subresource: Subresource, path: str, at: str) -> Json:
    answered: Json = {"type": "string", "format": "binary"}
    if subresource.model is not None:
        answered = {"$ref": at + _name(subresource.kind)}
    methods = {
        _METHODS[verb]: _operation(resource, verb, path, answered, kind=subresource.kind, at=at)
        | {"description": subresource.description}
        for verb in subresource.verbs
        if verb in _METHODS
    }
    return methods | {"parameters": _parameters(_FIXED, (), at=at)}


_METHODS: Final = {"get": "get", "create": "post"}
_FIXED: Final = ("name", "namespace")
_ACTIONS: Final = {"get": "get", "list": "list", "create": "post"}


def _operation(  # noqa: PLR0913 - one row of a document
    resource: Resource, verb: str, path: str, answered: Json, *, at: str, kind: str = ""
) -> Json:
    words = (_SAFE.sub(" ", part).title().replace(" ", "") for part in path.split("/")[4:])
    answer: Json = {"description": "OK"}
    answer |= {"content": {_JSON: {"schema": answered}}} if at == _V3 else {"schema": answered}
    body: Json = {
        "description": f"{verb} {kind or resource.kind}",
        "operationId": f"{verb}GitopsPenstockDev{VERSION.title()}{''.join(words)}",
        "tags": ["gitopsPenstockDev_v1alpha1"],
        "responses": {"200": answer, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": _ACTIONS[verb],
        "x-kubernetes-group-version-kind": _kind(kind or resource.kind),
    }
    return body if at == _V3 else body | {"produces": [_JSON], "schemes": ["https"]}


_LIST_QUERY: Final = (
    ("fieldSelector", "string", "Selects objects by their fields."),
    ("labelSelector", "string", "Selects objects by their labels."),
    ("limit", "integer", "The most objects that an answer has; the rest is got by `continue`."),
    ("continue", "string", "Where the last answer ended."),
    ("resourceVersion", "string", "How new the answer must be."),
    ("resourceVersionMatch", "string", "How `resourceVersion` is meant."),
    ("sendInitialEvents", "boolean", "Begins a watch with what there is."),
    ("allowWatchBookmarks", "boolean", "Asks for events that only tell how far a watch is."),
    ("timeoutSeconds", "integer", "How long the answer may take, or a watch lasts."),
    ("watch", "boolean", "Watches for changes instead of listing."),
)


def _parameters(
    fixed: tuple[str, ...], query: tuple[tuple[str, str, str], ...], *, at: str
) -> list[Json]:
    rows = [
        ({"name": name, "in": "path", "required": True}, "string", f"The {name} of the object.")
        for name in fixed
    ]
    rows += [({"name": name, "in": "query"}, kind, text) for name, kind, text in query]
    return [
        row
        | {"description": text, "uniqueItems": True}
        | ({"schema": {"type": kind, "uniqueItems": True}} if at == _V3 else {"type": kind})
        for row, kind, text in rows
    ]


def _name(kind: str) -> str:
    return f"{PREFIX}.{kind}"


def _ref(at: str, name: str) -> Json:
    reference = {"$ref": at + _name(name)}
    # Version 3 allows nothing beside a reference (OpenAPI 3.0, Reference Object).
    return {"allOf": [reference]} if at == _V3 else reference


def _kind(kind: str) -> Json:
    return {"group": GROUP, "version": VERSION, "kind": kind}


def _gvk(kind: str) -> dict[str, Any]:
    return {"x-kubernetes-group-version-kind": [_kind(kind)]}


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
