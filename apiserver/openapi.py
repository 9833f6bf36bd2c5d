"""The schemas of the objects: OpenAPI v3 and v2, from the models and their docstrings.

kube-apiserver merges the documents of all extensions into one for the cluster. If it has a ``$ref``
without target, tools stop working for the whole cluster (argo-cd#22757, kueue#8873). So every
reference is to a definition here (``apiserver.schemas``), with unique names, so that merging
renames nothing.

``kubectl explain`` finds a kind by ``x-kubernetes-group-version-kind``, of the operations and of
the definition. Nothing can be written: the only creations are requests, of the answer's kind.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from aiohttp import web

from apiserver import documents
from apiserver.discovery import GROUP_VERSION, VERSION
from apiserver.documents import Document
from apiserver.resource import Parameter, Resource, Subresource
from apiserver.schemas import V2, V3, Schemas, gvk
from toolkit.objects import Json

BASE: Final = f"apis/{GROUP_VERSION}"
_INFO: Final = {"title": "Penstock", "version": VERSION}
_JSON: Final = "application/json"
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
    schemas = Schemas(resources, V3)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": dict(_paths(resources, schemas, at=V3)),
        "components": {"schemas": schemas.found},
    }


def v2(resources: Sequence[Resource]) -> Json:
    """Return the whole document."""
    schemas = Schemas(resources, V2)
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": dict(_paths(resources, schemas, at=V2)),
        "definitions": schemas.found,
    }


def _paths(
    resources: Sequence[Resource], schemas: Schemas, *, at: str
) -> Iterator[tuple[str, Json]]:
    for resource in resources:
        plural, kind = resource.plural, resource.kind
        collection = f"/{BASE}/namespaces/{{namespace}}/{plural}"
        listed = schemas.of(f"{kind}List")
        for path, fixed in ((f"/{BASE}/{plural}", ()), (collection, ("namespace",))):
            operation = _operation(resource, "list", path, listed, at=at)
            yield path, {"get": operation, "parameters": _parameters(fixed, _LIST_QUERY, at=at)}
        path = f"{collection}/{{name}}"
        operation = _operation(resource, "get", path, schemas.of(kind), at=at)
        yield path, {"get": operation, "parameters": _parameters(_FIXED, (), at=at)}
        for each in resource.subresources:
            yield f"{path}/{each.name}", _subpath(resource, each, path, schemas, at=at)


def _subpath(
    resource: Resource, subresource: Subresource, path: str, schemas: Schemas, *, at: str
) -> Json:
    answered: Json = {"type": "string", "format": "binary"}
    if subresource.model is not None:
        answered = schemas.of(subresource.kind)
    methods = {
        _METHODS[verb]: _operation(
            resource, verb, f"{path}/{subresource.name}", answered, kind=subresource.kind, at=at
        )
        | {"description": subresource.description}
        for verb in subresource.verbs
        if verb in _METHODS
    }
    if "post" in methods:
        methods["post"] |= _body(answered, at=at)
    return methods | {"parameters": _parameters(_FIXED, subresource.parameters, at=at)}


_METHODS: Final = {"get": "get", "create": "post"}
_FIXED: Final = ("name", "namespace")
_ACTIONS: Final = {"get": "get", "list": "list", "create": "post"}


def _body(schema: Json, *, at: str) -> Json:
    """Return the body of a request; without a body, the request has no options."""
    if at == V3:
        return {"requestBody": {"content": {_JSON: {"schema": schema}}}}
    return {
        "consumes": [_JSON],
        "parameters": [{"name": "body", "in": "body", "required": False, "schema": schema}],
    }


def _operation(  # noqa: PLR0913 - one row of a document
    resource: Resource, verb: str, path: str, answered: Json, *, at: str, kind: str = ""
) -> Json:
    words = (_SAFE.sub(" ", part).title().replace(" ", "") for part in path.split("/")[4:])
    answer: Json = {"description": "OK"}
    answer |= {"content": {_JSON: {"schema": answered}}} if at == V3 else {"schema": answered}
    body: Json = {
        "description": f"{verb} {kind or resource.kind}",
        "operationId": f"{verb}GitopsPenstockDev{VERSION.title()}{''.join(words)}",
        "tags": ["gitopsPenstockDev_v1alpha1"],
        "responses": {"200": answer, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": _ACTIONS[verb],
        "x-kubernetes-group-version-kind": gvk(kind or resource.kind),
    }
    return body if at == V3 else body | {"produces": [_JSON], "schemes": ["https"]}


_LIST_ROWS: Final[tuple[tuple[str, Literal["string", "integer", "boolean"], str], ...]] = (
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
_LIST_QUERY: Final = tuple(
    Parameter(name=name, type=kind, description=text) for name, kind, text in _LIST_ROWS
)


def _parameters(fixed: Sequence[str], query: Sequence[Parameter], *, at: str) -> list[Json]:
    rows = [
        ({"name": name, "in": "path", "required": True}, "string", f"The {name} of the object.")
        for name in fixed
    ]
    rows += [
        (
            {"name": each.name, "in": "query"} | ({"required": True} if each.required else {}),
            each.type,
            each.description,
        )
        for each in query
    ]
    return [
        row
        | {"description": text, "uniqueItems": True}
        | ({"schema": {"type": kind, "uniqueItems": True}} if at == V3 else {"type": kind})
        for row, kind, text in rows
    ]
