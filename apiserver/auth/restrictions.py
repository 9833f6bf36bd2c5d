"""What selectors narrow a request to, as authorization is told of it (KEP-4601).

Only what is understood is told. That can never allow too much: a selector makes a request smaller,
and whoever may see more may see less. Whether a selector is valid is decided where it is used.
"""

import re
from collections.abc import Iterator
from typing import Final

from toolkit.objects import Json

_MOST: Final = 256
"""Requirements that are told; a selector of more is judged as if it were less narrow."""
_TERM: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*)?(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)"
    r"\s*(?:(?P<equals>==?|!=)\s*(?P<value>[A-Za-z0-9._-]*)"
    r"|(?P<set>in|notin)\s*\((?P<values>[A-Za-z0-9._,\s-]*)\))?\s*(?:,|$)"
)


def of_fields(selector: str) -> Json:
    """Return ``FieldSelectorAttributes``; empty if there is nothing to tell."""
    return _attributes(_fields(selector))


def of_labels(selector: str) -> Json:
    """Return ``LabelSelectorAttributes``; empty if there is nothing to tell."""
    return _attributes(_labels(selector))


def _attributes(found: Iterator[Json]) -> Json:
    requirements = [row for row, _ in zip(found, range(_MOST), strict=False)]
    return {"requirements": requirements} if requirements else {}


def _fields(selector: str) -> Iterator[Json]:
    for term in re.split(r"(?<!\\),", selector):
        key, operator, value = re.fullmatch(r"([^!=]*)(==?|!=|)(.*)", term, re.DOTALL).groups()  # type: ignore[union-attr] - matches any text
        if key and operator:
            plain = re.sub(r"\\(.)", r"\1", value)
            yield _requirement(key, "NotIn" if operator == "!=" else "In", plain)


def _labels(selector: str) -> Iterator[Json]:
    at = 0
    while at < len(selector) and (term := _TERM.match(selector, at)):
        at = term.end()
        if term["absent"]:
            yield _requirement(term["key"], "DoesNotExist")
        elif term["equals"]:
            yield _requirement(
                term["key"], "NotIn" if term["equals"] == "!=" else "In", term["value"]
            )
        elif term["set"]:
            values = [value.strip() for value in term["values"].split(",")]
            yield _requirement(term["key"], "In" if term["set"] == "in" else "NotIn", *values)
        else:
            yield _requirement(term["key"], "Exists")


def _requirement(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
