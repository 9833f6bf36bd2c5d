"""Rules that are the same for every kind; each kind lists its fields.

They read objects as JSON.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final

from toolkit import regexp
from toolkit.objects import Json
from toolkit.policy import fieldpaths
from webhooks.validation import naming, patterns
from webhooks.validation.rule import Checks, Fault, Find, Named, Rule

_MOST: Final = 1000
"""Patterns of one object that are compiled."""


@functools.cache
def rules(checks: Checks[Any]) -> tuple[Rule[Json], ...]:
    """Return the rules about the fields that a kind names."""
    found = [
        Rule(
            name="object-name",
            fields=tuple(named.path for named in checks.names),
            demands="it is a name that an object can have",
            remedy="write at most 253 lower case letters, digits, '-' and '.'",
            find=_names(checks.names),
        ),
        Rule(
            name="namespace-name",
            fields=checks.namespaces,
            demands="it is a name that a namespace can have",
            remedy="write at most 63 lower case letters, digits and '-'",
            find=_namespaces(checks.namespaces),
        ),
        Rule(
            name="regular-expression",
            fields=checks.patterns,
            demands=_demanded(checks.patterns),
            remedy=patterns.REMEDY,
            find=_patterns(checks.patterns),
        ),
        Rule(
            name="label-selector",
            fields=checks.selectors,
            demands="its keys and values are those of labels",
            remedy="a key is [<domain>/]<name>, a value at most 63 letters, digits, '-_.'",
            find=_selectors(checks.selectors),
        ),
    ]
    return tuple(rule for rule in found if rule.fields)


def named(obj: Json, where: Named) -> Iterator[tuple[str, str]]:
    """Yield each name at a place, with its exact path."""
    for place, value in fieldpaths.values(obj, where.path):
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, dict):
            yield f"{place}.name", str(value.get("name") or "")


def _names(names: tuple[Named, ...]) -> Find[Json]:
    def find(obj: Json) -> Iterator[Fault]:
        for where in names:
            for place, name in named(obj, where):
                # An empty string is a field that is not set; a reference without a name is not.
                if (name or place.endswith(".name")) and (why := naming.object_name(name)):
                    yield Fault(place, why, name)

    return find


def _namespaces(paths: tuple[str, ...]) -> Find[Json]:
    def find(obj: Json) -> Iterator[Fault]:
        for path in paths:
            for place, name in fieldpaths.values(obj, path):
                if name and (why := naming.namespace_name(str(name))):
                    yield Fault(place, why, str(name))

    return find


def _demanded(paths: tuple[str, ...]) -> str:
    few = (
        f"; a list has at most {regexp.MOST}, which compile to at most {regexp.MOST_INSTRUCTIONS} "
        "instructions"
    )
    return f"{patterns.DEMANDS}{few if any(map(_is_list, paths)) else ''}"


def _is_list(path: str) -> bool:
    return path.endswith("[]")


def _patterns(paths: tuple[str, ...]) -> Find[Json]:
    def find(obj: Json) -> Iterator[Fault]:
        size = 0
        for path in paths:
            found = list(fieldpaths.values(obj, path))
            if _is_list(path) and len(found) > regexp.MOST:
                why = f"it has {len(found)} patterns, which is more than {regexp.MOST}"
                yield Fault(path.removesuffix("[]"), why)
            for place, text in found[:_MOST]:
                if why := patterns.problem(str(text)):
                    yield Fault(place, why, str(text))
                    continue
                size += regexp.size(str(text))
                if size > regexp.MOST_INSTRUCTIONS:
                    yield Fault(place, patterns.TOO_LARGE, str(text))
                    return

    return find


def _selectors(paths: tuple[str, ...]) -> Find[Json]:
    def find(obj: Json) -> Iterator[Fault]:
        for path in paths:
            for place, selector in fieldpaths.values(obj, path):
                if isinstance(selector, dict):
                    yield from naming.labels(
                        f"{place}.matchLabels", selector.get("matchLabels") or {}
                    )
            for place, entry in fieldpaths.values(obj, f"{path}.matchExpressions[]"):
                if why := naming.label_key(str(entry.get("key") or "")):
                    yield Fault(f"{place}.key", why, str(entry.get("key") or ""))
                for value in entry.get("values") or ():
                    if why := naming.label_value(value):
                        yield Fault(f"{place}.values", why, value)

    return find
