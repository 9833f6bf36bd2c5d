"""Parse method, path and query of a request.

The rules are upstream's (``apiserver/pkg/endpoints/request/requestinfo.go``), because authorization
uses the result: a role that names one object grants ``get``, ``list`` and ``watch`` of it, the
latter two with a field selector of ``metadata.name``. The deprecated ``/watch/`` paths are not
supported. The result does not say whether the resource exists.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from multidict import MultiMapping

_VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GET": "get",
        "HEAD": "get",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete",
    }
)
_PREFIX: Final = "apis"
_OFF: Final = frozenset({"false", "0"})
_UNESCAPED_COMMA: Final = re.compile(r"(?<!\\),")
"""Splits nowhere where the selector itself is not split, so no name is seen that does not bind."""
_SPECIAL: Final = frozenset("/%\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """One request; ``resource`` is empty where the path is not a resource's.

    ``depth`` counts the parts of a resource's path: 1 the collection, 2 an object, 3 a subresource,
    more is nothing that can be served.
    """

    method: str
    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    depth: int = 0
    field_selector: str = ""
    label_selector: str = ""

    @property
    def is_resource(self) -> bool:
        """Tell whether it is about a resource."""
        return bool(self.resource)


def parse(method: str, path: str, query: MultiMapping[str]) -> RequestInfo:
    """Return the parsed request; ``path`` is decoded."""
    parts = path.strip("/").split("/")
    if len(parts) < 4 or parts[0] != _PREFIX:
        return RequestInfo(method=method, verb=method.lower(), path=path)
    _, group, version, *rest = parts
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2:
            rest = rest[2:]
    resource, name, subresource, *_ = (*rest, "", "")
    verb = _VERBS.get(method, "")
    selectors = ("", "")
    if not name:
        verb = _of_collection(verb, query)
        if verb in {"list", "watch", "deletecollection"}:
            selectors = (query.get("fieldSelector", ""), query.get("labelSelector", ""))
            name = _single(selectors[0])
    return RequestInfo(
        method=method,
        verb=verb,
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        depth=len(rest),
        field_selector=selectors[0],
        label_selector=selectors[1],
    )


def _of_collection(verb: str, query: MultiMapping[str]) -> str:
    match verb:
        case "get":
            watch = query.get("watch")
            return "list" if watch is None or watch.lower() in _OFF else "watch"
        case "delete":
            return "deletecollection"
        case _:
            return verb


def _single(field_selector: str) -> str:
    """Return the only name that a field selector selects; empty if it is not such a selector."""
    for term in _UNESCAPED_COMMA.split(field_selector):
        key, equals, value = term.partition("=")
        if key == "metadata.name" and equals:
            name = value.removeprefix("=")
            return name if name not in {"", ".", ".."} and not set(name) & _SPECIAL else ""
    return ""
