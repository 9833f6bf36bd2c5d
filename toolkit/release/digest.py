"""Digests by which Flux detects changes of values and post-renderers.

They are in the ``status`` and outlive the controller that wrote them: a release of Flux is taken
over without an upgrade only if the same values have the same digest here. Flux hashes values as
YAML with sorted keys, in the form of Go's ``yaml/v2`` (``pkg/chartutil``, ``DigestValues``), and
post-renderers as Go's JSON (``internal/postrender``). Go's emitter is a translation of libyaml's,
which is used here. The rules for quotes and the form of numbers are Go's own. The two emitters
differ only in texts that begin with a byte order mark, and in texts with line separators (U+2028).
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

_OPEN_END: Final = "\n...\n"
"""The end that libyaml writes after a text with kept trailing line breaks, and Go does not."""
_MOST_DIGITS: Final = 6
_INTEGERS: Final = range(-(1 << 63), 1 << 64)
_RESOLVED: Final = frozenset(
    {
        *("", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"),
        *("n", "N", "no", "No", "NO", "off", "Off", "OFF", "true", "True", "TRUE"),
        *("false", "False", "FALSE", ".nan", ".NaN", ".NAN"),
        *(sign + text for sign in ("", "+", "-") for text in (".inf", ".Inf", ".INF")),
    }
)
"""Plain texts that YAML resolves to another type (``yaml/v2``, ``resolve.go``)."""
_NUMBER: Final = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+"
    r"|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)"
)
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_TIME: Final = re.compile(
    r"[0-9]{4}-(0?[1-9]|1[0-2])-(0?[1-9]|[12][0-9]|3[01])"
    r"([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})"
    r"| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?)?"
)


def of_values(values: Mapping[str, Any]) -> str:
    """Return the digest of values as ``sha256:<hex>``; of none it is that of no bytes."""
    return _sha256(_text(values).encode(errors="surrogatepass") if values else b"")


def of_json(value: Any) -> str:
    """Return the digest of a value, without empty fields, in the order of the fields of Go."""
    return _sha256(_escaped(msgspec.json.encode(value, order="deterministic")) + b"\n")


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _text(values: Mapping[str, Any]) -> str:
    written: str = yaml.emit(
        _document(values), Dumper=yaml.CSafeDumper, allow_unicode=True, width=80
    )
    return written[: -len(_OPEN_END) + 1] if written.endswith(_OPEN_END) else written


def _document(values: Mapping[str, Any]) -> Iterator[Event]:
    yield StreamStartEvent()
    yield DocumentStartEvent(explicit=False)
    yield from _events(values)
    yield DocumentEndEvent(explicit=False)
    yield StreamEndEvent()


def _events(value: Any) -> Iterator[Event]:
    if isinstance(value, Mapping):
        yield MappingStartEvent(None, None, implicit=True, flow_style=not value)
        for key in sorted(value):
            yield _scalar(key)
            yield from _events(value[key])
        yield MappingEndEvent()
    elif isinstance(value, list):
        yield SequenceStartEvent(None, None, implicit=True, flow_style=not value)
        for entry in value:
            yield from _events(entry)
        yield SequenceEndEvent()
    else:
        yield _scalar(value)


def _scalar(value: Any) -> ScalarEvent:
    """Return a scalar; a text without style is quoted by the emitter where YAML demands it."""
    if isinstance(value, str):
        style = "|" if "\n" in value else '"' if _resolved(value) else None
        return ScalarEvent(None, None, implicit=(True, True), value=value, style=style)
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else _number(value)
    return ScalarEvent(None, None, implicit=(True, True), value=text)


def _resolved(text: str) -> bool:
    """Tell whether Go would resolve the plain text to another type."""
    if text in _RESOLVED or _BASE_60.fullmatch(text):
        return True
    if text[0] not in "+-.0123456789":
        return False
    return bool(_NUMBER.fullmatch(text.replace("_", "")) or _TIME.fullmatch(text))


def _number(value: float) -> str:
    """Return a number as Go writes it: whole ones without an exponent as long as they fit."""
    if value == int(value) and int(value) in _INTEGERS:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    text = "".join(map(str, digits))
    if -5 < power < _MOST_DIGITS:
        return format(Decimal(repr(float(value))), "f")
    fraction = f".{text[1:]}" if text[1:] else ""
    return f"{'-' * sign}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02}"


_ESCAPES: Final = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def _escaped(text: bytes) -> bytes:
    """Return JSON with the characters escaped that Go escapes for HTML."""
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text
