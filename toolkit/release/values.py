"""The values of a release, composed from ConfigMaps, Secrets and the spec as in Flux.

The documents of ``spec.valuesFrom`` are merged in order, objects key by key, and ``spec.values``
last. An entry with ``targetPath`` sets a single value instead. Flux merges the inline values before
such entries, and again at the end (``pkg/chartutil``, ``ChartValuesFromReferences``). So the entry
wins over an inline value if both share the object that contains the path, and loses to an inline
value at the root. This module takes the same steps, and shares objects in the same way, because
other values would be another release.

The caller reads objects and documents. Errors name the object and its key, never a value.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from crds.helm_parts import ValuesReference
from toolkit.errors import TransientError
from toolkit.release import setting

Values: TypeAlias = dict[str, Any]
Data: TypeAlias = Mapping[str, bytes]
Fetched: TypeAlias = Mapping[tuple[str, str], Data | None]
"""The content of objects by kind and name; None for one that does not exist."""

MOST_BYTES: Final = 4 << 20
"""Limit of the composed values as JSON; Helm stores them compressed in a Secret of one MiB."""
MOST_LEVELS: Final = 100
MOST_REFERENCES: Final = 256
MOST_READ: Final = 8 << 20
"""Bytes that are read for one release, content counted each time that it is referred to."""
MOST_MERGED: Final = 1_000_000
"""Limit of the fields of ``spec.values`` times the references with ``targetPath``, each of which
merges all of them: half a second."""

_EXACT: Final = 1 << 53
"""Up to here every whole number is a float."""


class ValuesError(TransientError):
    """The values cannot be composed until the spec or an object that it names changes."""

    default_reason = "ValuesError"


Read: TypeAlias = Callable[[bytes], Mapping[str, Any]]
"""Reads a YAML document as Helm does; raises ``ValueError`` with nothing of the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """The values, and the optional references that were passed over, in words."""

    values: Values
    missing: tuple[str, ...] = ()


def require_few(references: Sequence[ValuesReference]) -> None:
    """Refuse more references than are read for one release: each merges all values once more.

    Raises:
        ValuesError: there are too many.
    """
    if len(references) > MOST_REFERENCES:
        raise ValuesError(
            f"spec.valuesFrom has {len(references)} references, more than {MOST_REFERENCES}:"
            " join objects"
        )


def compose(
    references: Sequence[ValuesReference],
    inline: Any,
    fetched: Fetched,
    read: Read,
    *,
    namespace: str,
) -> Composed:
    """Return the values of a release.

    ``inline`` is ``spec.values``, or None. ``namespace`` is only used in errors.

    Raises:
        ValuesError: an object or key that is not optional does not exist, or is invalid; or the
            values are too large, too deep, or take too long to merge.
    """
    try:
        own = as_go(inline if isinstance(inline, Mapping) else {})
    except ValuesError as exc:
        raise exc.within("spec.values") from exc
    _require_few_merges(own, references)
    result: Values = {}
    missing = []
    for reference in references:
        content = _content(reference, fetched, namespace)
        if isinstance(content, str):
            missing.append(content)
        elif reference.target_path:
            result = merged(result, own)
            _set(result, reference, content, namespace)
        else:
            result = merged(result, _document(reference, content, read, namespace))
    result = merged(result, own)
    _require_bounds(result)
    return Composed(values=result, missing=tuple(missing))


def merged(below: Values, above: Mapping[str, Any]) -> Values:
    """Return both merged; for equal keys objects are merged, otherwise the upper value wins."""
    result = dict(below)
    for key, value in above.items():
        there = result.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            result[key] = merged(there, value)
        else:
            result[key] = value
    return result


def _require_few_merges(own: Values, references: Sequence[ValuesReference]) -> None:
    times = sum(1 for reference in references if reference.target_path)
    if times and (fields := _fields(own)) * times > MOST_MERGED:
        raise ValuesError(
            f"spec.values has {fields} fields, too many to set {times} values with targetPath: move"
            " the fields to a document of spec.valuesFrom"
        )


def _fields(values: Values) -> int:
    return sum(1 + _fields(value) if isinstance(value, dict) else 1 for value in values.values())


def as_go(found: Mapping[str, Any]) -> Values:
    """Return a copy of values as Go holds them, whose numbers are floats.

    Raises:
        ValuesError: there are too many levels, or digits.
    """
    return {key: _owned(value, 1) for key, value in found.items()}


def _owned(value: Any, level: int) -> Any:
    if level > MOST_LEVELS:
        raise ValuesError(f"the values have more than {MOST_LEVELS} levels: nest them less")
    if isinstance(value, Mapping):
        return {key: _owned(inner, level + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_owned(inner, level + 1) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValuesError("a number in the values is infinite or NaN: quote it")
    if not isinstance(value, int) or -_EXACT <= value <= _EXACT:
        return value
    try:
        return float(value)
    except OverflowError as exc:
        raise ValuesError("a number in the values has too many digits: quote it") from exc


def _content(reference: ValuesReference, fetched: Fetched, namespace: str) -> bytes | str:
    """Return the content that is referred to, or why an optional one is left out."""
    data = fetched.get((reference.kind, reference.name))
    if data is None:
        why = f'{reference.kind.lower()}s "{reference.name}" not found'
        remedy = "create it, or correct spec.valuesFrom"
    elif reference.values_key not in data:
        why, remedy = "key not found", "add it, or correct valuesKey"
    else:
        return data[reference.values_key]
    if reference.optional:
        return str(_error(reference, namespace, why))
    raise _error(reference, namespace, f"{why}: {remedy}")


def _document(
    reference: ValuesReference, content: bytes, read: Read, namespace: str
) -> Mapping[str, Any]:
    try:
        return as_go(read(content))
    except (ValueError, ValuesError) as exc:
        raise _error(reference, namespace, str(exc)) from exc


def _set(result: Values, reference: ValuesReference, content: bytes, namespace: str) -> None:
    put = setting.put_literal if reference.literal else setting.put_quoted
    try:
        put(result, reference.target_path, content.decode())
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except setting.SettingError as exc:
        why = str(exc)
    else:
        return
    raise _error(reference, namespace, f"targetPath '{reference.target_path}': {why}")


def _error(reference: ValuesReference, namespace: str, why: str) -> ValuesError:
    """Return the error in Flux's words (``ErrValuesReference``)."""
    optional = "optional " if reference.optional else ""
    return ValuesError(
        f"could not resolve {optional}{reference.kind} chart values reference "
        f"'{namespace}/{reference.name}' with key '{reference.values_key}': {why}"
    )


def _require_bounds(values: Values) -> None:
    size = len(msgspec.json.encode(values))
    if size > MOST_BYTES:
        raise ValuesError(
            f"the values are {size} bytes as JSON, more than {MOST_BYTES}: move files that they "
            "hold into ConfigMaps of their own"
        )
