"""YAML documents: read event by event as Go's yaml.v3 would, written so that every reader agrees.

PyYAML's own constructors are YAML 1.1 and follow aliases; only the events of its parser are used
here, which ``toolkit.untrusted`` bounds. ``dump`` drops comments: they are not in the MAC, and of
no use to a build. ``yamltext`` keeps them.
"""

import base64
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from toolkit import untrusted
from toolkit.decrypt import scalars
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.tree import (
    MAX_DEPTH,
    MAX_NODES,
    Branch,
    Comment,
    Scalar,
    Timestamp,
    Value,
    bytes_of,
)


def load(data: bytes) -> list[Branch]:
    """Return the documents of ``data``; a document without content is an empty mapping.

    Raises:
        DecryptionError: not YAML, an alias, a key twice, no mapping at the top level, too large.
    """
    try:
        return list(_Reader(data).documents())
    except untrusted.UntrustedError as exc:
        raise DecryptionError(f"the YAML cannot be read: {exc}") from None


def dump(documents: list[Branch]) -> bytes:
    """Write ``documents`` as YAML that 1.1 and 1.2 readers take for the same data."""
    text: str = yaml.emit(
        _emit_stream(documents), Dumper=yaml.CDumper, allow_unicode=True, width=_NO_WRAPPING
    )
    return text.encode()


_NO_WRAPPING: Final = 1 << 30
BOUNDS: Final = untrusted.Bounds(size=16 << 20, depth=MAX_DEPTH, nodes=MAX_NODES)


class _Reader:
    """Turns parser events into a tree. Aliases never come out of SOPS, so none are followed."""

    def __init__(self, data: bytes) -> None:
        self._events = untrusted.events(data, BOUNDS)

    def documents(self) -> Iterator[Branch]:
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            value = self._value(next(self._events))
            if value is None:
                yield Branch([])
            elif isinstance(value, Branch):
                yield value
            else:
                raise DecryptionError("a YAML document is not a mapping")

    def _value(self, event: yaml.Event) -> Value:
        match event:
            case yaml.MappingStartEvent():
                return self._mapping()
            case yaml.SequenceStartEvent():
                return self._sequence()
            case _:
                return _scalar(event)

    def _sequence(self) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event))
        return items

    def _mapping(self) -> Branch:
        branch = Branch([])
        seen = set()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._value(event)
            if not isinstance(key, str):
                raise DecryptionError(f"a YAML key is not a string{_line(event)}")
            if key in seen:
                raise DecryptionError(f"a YAML key occurs twice{_line(event)}")
            seen.add(key)
            branch.items.append((key, self._value(next(self._events))))
        return branch


def _scalar(event: Any) -> Scalar:
    text: str = event.value
    if event.tag is not None and event.tag != "!":
        return scalars.resolve_tagged(event.tag.removeprefix("tag:yaml.org,2002:"), text)
    if event.implicit[0]:
        return scalars.resolve(text)
    return text


def _line(event: Any) -> str:
    return f" (line {event.start_mark.line + 1})" if event.start_mark else ""


def _emit_stream(documents: list[Branch]) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    for index, document in enumerate(documents):
        yield yaml.DocumentStartEvent(explicit=index > 0)
        yield from _emit(document)
        yield yaml.DocumentEndEvent()
    yield yaml.StreamEndEvent()


def _emit(value: Value) -> Iterator[yaml.Event]:
    match value:
        case Branch():
            yield yaml.MappingStartEvent(
                None, None, implicit=True, flow_style=not any(value.entries())
            )
            for key, child in value.entries():
                yield _key_event(key)
                yield from _emit(child)
            yield yaml.MappingEndEvent()
        case list():
            items = [item for item in value if not isinstance(item, Comment)]
            yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=not items)
            for item in items:
                yield from _emit(item)
            yield yaml.SequenceEndEvent()
        case str():
            yield _text_event(value)
        case _:
            yield yaml.ScalarEvent(None, None, (True, False), _plain(value))


_SAFE_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_RESERVED: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_UNFIT = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters with which a text is not written as a block."""

_LINES = re.compile(r"[^\s].*\n", re.DOTALL)


def _key_event(text: str) -> yaml.ScalarEvent:
    """Return the event of a key; a merge key stays one, because the build resolves it."""
    if text == "<<":
        return yaml.ScalarEvent(None, None, (True, False), text)
    return _text_event(text, block=False)


def _text_event(text: str, *, block: bool = True) -> yaml.ScalarEvent:
    """Return the event of a text; quote it if some YAML version could parse it differently."""
    try:
        text.encode()
    except UnicodeEncodeError:
        encoded = base64.b64encode(bytes_of(text)).decode()
        return yaml.ScalarEvent(None, "tag:yaml.org,2002:binary", (False, False), encoded)
    if _SAFE_PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return yaml.ScalarEvent(None, None, (True, False), text)
    block = block and _LINES.fullmatch(text) is not None and not _UNFIT.search(text)
    return yaml.ScalarEvent(None, None, (False, True), text, style="|" if block else '"')


def _plain(value: Scalar) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _float(value)
        case Timestamp():
            return value.text
        case _:
            return str(value)


def _float(number: float) -> str:
    """Spell a float with a point and a signed exponent: YAML 1.1 takes nothing less for one."""
    if math.isnan(number):
        return ".nan"
    if math.isinf(number):
        return ".inf" if number > 0 else "-.inf"
    mantissa, exponent, power = repr(number).partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    sign = "" if not exponent or power[0] == "-" else "+"
    return f"{mantissa}{exponent}{sign}{power.removeprefix('+')}"
