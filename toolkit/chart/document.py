"""Values in YAML as Helm reads and writes them, for processes that do not load the engine.

Helm's parser is Go's, so plain scalars have their meaning there (``yes`` is true, ``0777`` is
octal, ``1e3`` a number, a date a string), keys become strings, and of equal keys the last counts.
The output avoids every form that two parsers could read differently.

Documents are untrusted: ``toolkit.untrusted`` bounds their depth and number of nodes
(``toolkit.chart.limits``), and the targets of aliases are counted here, each time. Integers keep
all their digits.
"""

import base64
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from toolkit import untrusted
from toolkit.chart import limits


class DocumentError(ValueError):
    """Helm cannot parse a document, or it is too large; the message says what and where."""


def load(data: bytes) -> Any:
    """Return the first document of ``data``; None if there is none.

    Raises:
        DocumentError: the document is invalid.
    """
    try:
        return _Reader(data).document()
    except untrusted.UntrustedError as exc:
        raise DocumentError(str(exc)) from exc


def load_all(data: bytes) -> list[tuple[int, Any]]:
    """Return every document of ``data`` with the line in which its content begins.

    Raises:
        DocumentError: one of them cannot be read.
    """
    try:
        return list(_Reader(data).documents())
    except untrusted.UntrustedError as exc:
        raise DocumentError(str(exc)) from exc


def load_mapping(data: bytes) -> dict[str, Any]:
    """Return the first document, which must be a mapping; without content, an empty mapping.

    Raises:
        DocumentError: the document is invalid, or is not a mapping.
    """
    value = load(data)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError("it is not a mapping")
    return value


def dump(value: Mapping[str, Any]) -> bytes:
    """Write a mapping of JSON values as YAML, keys sorted, as every parser reads it."""
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=True,
        default_flow_style=False,
        allow_unicode=True,
        width=-1,  # never break a line
    )
    return text.encode()


def number(value: float) -> str:
    """Return a float as Go writes it where a string is wanted."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


class _Reader:
    """Builds values out of the parser's events."""

    def __init__(self, data: bytes) -> None:
        self._next = untrusted.events(data, _BOUNDS, aliases=True).__next__
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0

    def document(self) -> Any:
        return next((value for _, value in self.documents()), None)

    def documents(self) -> Iterator[tuple[int, Any]]:
        event = self._next()
        while not isinstance(event, StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                self._anchors.clear()
                first = self._next()
                line = first.start_mark.line + 1 if first.start_mark else 0
                yield line, self._value(first)
            event = self._next()

    def _value(self, event: Any) -> Any:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        before = self._nodes
        self._count(event, 1)
        if isinstance(event, ScalarEvent):
            value: Any = _scalar(event)
        elif isinstance(event, SequenceStartEvent):
            value = self._sequence()
        else:
            value = self._mapping()
        if event.anchor is not None:
            if len(self._anchors) >= _ANCHORS:
                raise DocumentError(f"it has more than {_ANCHORS} anchors")
            self._anchors[event.anchor] = value, self._nodes - before
        return value

    def _sequence(self) -> list[Any]:
        items = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self._value(event))
        return items

    def _mapping(self) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            merge = isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = self._value(event)
            value = self._value(self._next())
            if merge:
                merged |= _merged(event, value)
            else:
                own[_key(event, key)] = value
        return merged | own

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise DocumentError(f"{_line(event)}an alias refers to no anchor before it")
        value, nodes = self._anchors[event.anchor]
        self._count(event, nodes)
        return value

    def _count(self, event: Any, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > limits.YAML_NODES:
            raise DocumentError(f"{_line(event)}it has more than {limits.YAML_NODES} nodes")


_ANCHORS: Final = 10_000
_BOUNDS: Final = untrusted.Bounds(
    size=limits.UNPACKED_BYTES, depth=limits.YAML_DEPTH, nodes=limits.YAML_NODES
)
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"})
_FALSE: Final = frozenset(
    {"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"}
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES: Final = (
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+"), 16),
    (re.compile(r"[-+]?0[bB][01]+"), 2),
    (re.compile(r"[-+]?0[oO]?[0-7]+"), 8),
    (re.compile(r"[-+]?(?:0|[1-9][0-9]*)"), 10),
)
_LONGEST_NUMBER: Final = 400
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_PREFIX: Final = "tag:yaml.org,2002:"


def _scalar(event: ScalarEvent) -> Any:
    """Return the value of a scalar as Go's parser resolves it (yaml/v2 ``resolve.go``)."""
    tag = (event.tag or "").removeprefix(_PREFIX)
    if tag == "binary":
        return _binary(event)
    if tag in ("str", "!") or not (event.implicit[0] or tag in _RESOLVED):
        return event.value
    return _plain(event)


_RESOLVED: Final = frozenset({"int", "float", "bool", "null"})


def _plain(event: ScalarEvent) -> Any:
    text = str(event.value or "")
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= _LONGEST_NUMBER and (text[0].isdigit() or text[0] in "+-."):
        return _number(event, text)
    return text


def _number(event: ScalarEvent, text: str) -> Any:
    if _NOT_FINITE.fullmatch(text):
        raise DocumentError(f"{_line(event)}'{text}' cannot be a number in JSON")
    digits = text.replace("_", "")
    for pattern, base in _BASES:
        if pattern.fullmatch(digits):
            return _integer(digits, base)
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        return value if math.isfinite(value) else text
    return text


def _integer(digits: str, base: int) -> int | float:
    text = digits.lower().replace("0o", "0") if base == 8 else digits
    value = int(text, base)
    # Go has integers up to 64 bits; beyond them it reads a float.
    return value if -(1 << 63) <= value < 1 << 64 else float(value)


def _binary(event: ScalarEvent) -> str:
    try:
        return base64.b64decode("".join(event.value.split()), validate=True).decode()
    except ValueError as exc:
        raise DocumentError(f"{_line(event)}!!binary is not base64 of text") from exc


def _merged(event: Any, value: Any) -> dict[str, Any]:
    """Return the value of ``<<``: a mapping, or a list of mappings, in which the first wins."""
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise DocumentError(f"{_line(event)}'<<' takes a mapping or a list of mappings")
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        merged |= source
    return merged


def _key(event: Any, value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return number(value)
    raise DocumentError(f"{_line(event)}a list, a mapping or null cannot be a key")


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}: "


_SAFE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_RESERVED: Final = _NULL | _TRUE | _FALSE


class _Dumper(yaml.CSafeDumper):
    """Writes plain scalars only for unambiguous strings, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the signature of PyYAML
        return True


def _represent(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    plain = _SAFE.fullmatch(text) and text not in _RESERVED
    return dumper.represent_scalar(f"{_PREFIX}str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent)
