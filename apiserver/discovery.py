"""Discovery of the resources: the aggregated document (v2) and the older ones.

kube-apiserver requests the first every minute, and the others if it gets no answer; kubectl
requests either. Each resource and subresource has a ``responseKind``, because upstream dereferences
it.

``apiserver/pkg/endpoints/discovery``, KEP-3352.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from aiohttp import web

from apiserver import documents, status
from apiserver.documents import Document
from apiserver.resource import Resource, Subresource
from apiserver.status import GROUP
from toolkit.objects import Json

VERSION: Final = "v1alpha1"
GROUP_VERSION: Final = f"{GROUP}/{VERSION}"
_V2: Final = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}
_V2_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_PREFERRED: Final = {"groupVersion": GROUP_VERSION, "version": VERSION}


class Discovery:
    """The documents of these resources."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._aggregated = Document.of(aggregated(resources), content_type=_V2_TYPE)
        self._groups = Document.of(group_list())
        self._group = Document.of(group())
        self._resources = Document.of(resource_list(resources))

    async def root(self, request: web.Request) -> web.Response:
        """Answer ``/apis``, in the form that the client prefers.

        Raises:
            StatusError: 406, the client accepts none of the forms.
        """
        for clause in documents.accepted(request):
            if not documents.takes_json(clause):
                continue
            if {key: clause.parameters.get(key, "") for key in _V2} == _V2:
                return self._aggregated.answer(request)
            if not clause.parameters:
                return self._groups.answer(request)
        raise status.not_acceptable(documents.JSON, _V2_TYPE)

    async def group(self, request: web.Request) -> web.Response:
        """Answer ``/apis/<group>``."""
        documents.plain_json_or_refuse(request)
        return self._group.answer(request)

    async def resources(self, request: web.Request) -> web.Response:
        """Answer ``/apis/<group>/<version>``, which API servers also use as a health check."""
        documents.plain_json_or_refuse(request)
        return self._resources.answer(request)


def aggregated(resources: Sequence[Resource]) -> Json:
    """Return the ``APIGroupDiscoveryList``."""
    version = {
        "version": VERSION,
        "resources": [_discovered(resource) for resource in resources],
        "freshness": "Current",
    }
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {"metadata": {"name": GROUP, "creationTimestamp": None}, "versions": [version]},
        ],
    }


def group_list() -> Json:
    """Return the ``APIGroupList``."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def group() -> Json:
    """Return the ``APIGroup``."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group()


def resource_list(resources: Sequence[Resource]) -> Json:
    """Return the ``APIResourceList``."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP_VERSION,
        "resources": [row for resource in resources for row in _listed(resource)],
    }


def _group() -> Json:
    return {"name": GROUP, "versions": [_PREFERRED], "preferredVersion": _PREFERRED}


def _discovered(resource: Resource) -> Json:
    row: Json = {
        "resource": resource.plural,
        "responseKind": _kind(resource.kind),
        "scope": "Namespaced",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "subresources": [_below(each) for each in resource.subresources],
    }
    return {key: value for key, value in row.items() if value}


def _below(subresource: Subresource) -> Json:
    return {
        "subresource": subresource.name,
        "responseKind": _kind(subresource.kind),
        "verbs": sorted(subresource.verbs),
    }


def _kind(kind: str) -> Json:
    return {"group": GROUP, "version": VERSION, "kind": kind}


def _listed(resource: Resource) -> Iterator[Json]:
    row: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": True,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
    }
    yield {key: value for key, value in row.items() if value not in ("", [])}
    for each in resource.subresources:
        yield {
            "name": f"{resource.plural}/{each.name}",
            "singularName": "",
            "namespaced": True,
            "kind": each.kind,
            "verbs": sorted(each.verbs),
        }
