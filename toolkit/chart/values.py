"""Values files of a chart, merged as Flux merges them.

Mappings are merged key by key, everything else is replaced by what comes later; a null is a value
like any other (it is Helm that drops the key, when it renders).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from toolkit.chart import document, limits
from toolkit.chart.document import DocumentError
from toolkit.chart.errors import ValuesFilesError


def merge(
    names: Sequence[str],
    read: Callable[[str], bytes | None],
    *,
    ignore_missing: bool,
) -> tuple[bytes, tuple[str, ...]]:
    """Return values.yaml made of the named files, and which of them there were.

    ``read`` returns a file's content, or ``None`` if there is no such file.

    Raises:
        ValuesFilesError: a file is missing, or no YAML mapping.
    """
    if len(names) > limits.VALUES_FILES:
        raise ValuesFilesError(f"more than {limits.VALUES_FILES} values files are not merged")
    merged: dict[str, Any] = {}
    used = []
    for name in names:
        data = read(name)
        if data is None:
            if ignore_missing:
                continue
            raise ValuesFilesError(
                f"spec.valuesFiles: there is no file '{name}'; "
                "spec.ignoreMissingValuesFiles would go on without it"
            )
        try:
            merged = overlay(merged, document.load_mapping(data))
        except DocumentError as exc:
            raise ValuesFilesError(f"spec.valuesFiles: '{name}' cannot be read: {exc}") from exc
        used.append(name)
    return document.dump(merged), tuple(used)


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


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """Return the files to merge: none if it is the chart's own values.yaml alone (Flux)."""
    given = tuple(names)
    alone = len(given) == 1 and given[0].removeprefix("./") == "values.yaml"
    return () if alone else given
