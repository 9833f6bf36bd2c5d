"""The selectors of a request, for authorization (KEP-4601).

Only known selectors are passed on. That can never allow too much: a selector narrows a request, and
a user who may see more may see less. The handler validates selectors.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from apiserver import selectors
from apiserver.status import StatusError
from toolkit.objects import Json

_OPERATORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "in": "In",
        "=": "In",
        "==": "In",
        "notin": "NotIn",
        "!=": "NotIn",
        "exists": "Exists",
        "!": "DoesNotExist",
    }
)
"""Operators that reviews support; others are not passed on."""
_FIELD: Final = re.compile(r"(?P<key>[^!=\\]+)(?P<operator>==?|!=)(?P<value>[^\\=,]*)")
_COMMA: Final = re.compile(r"(?<!\\),")


def of_fields(selector: str) -> Json:
    """Return ``FieldSelectorAttributes``; empty if there is nothing to tell."""
    terms = (_FIELD.fullmatch(term) for term in _COMMA.split(selector))
    return _attributes(
        _requirement(term["key"], _OPERATORS[term["operator"]], term["value"])
        for term in terms
        if term
    )


def of_labels(selector: str) -> Json:
    """Return ``LabelSelectorAttributes``; empty if there is nothing to tell."""
    try:
        found = selectors.parse_labels(selector)
    except StatusError:
        return {}
    return _attributes(
        _requirement(each.key, _OPERATORS[each.operator], *sorted(each.values))
        for each in found
        if each.operator in _OPERATORS
    )


def _attributes(found: Iterator[Json]) -> Json:
    requirements = [row for row, _ in zip(found, range(selectors.MOST), strict=False)]
    return {"requirements": requirements} if requirements else {}


def _requirement(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
