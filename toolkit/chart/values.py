"""Values files of a chart: which are merged, and how, as Flux merges them."""

from collections.abc import Iterable, Mapping
from typing import Any


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """Return the files to merge: none if it is the chart's own values.yaml alone (Flux)."""
    given = tuple(names)
    alone = len(given) == 1 and given[0].removeprefix("./") == "values.yaml"
    return () if alone else given


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both mappings as one, ``above`` winning."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            result[key] = overlay(old, value)
        else:
            result[key] = value
    return result
