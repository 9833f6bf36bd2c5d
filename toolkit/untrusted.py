"""Read untrusted YAML and JSON in a process that serves several users.

PyYAML's composer is recursive C code: 30,000 brackets crash the process, and aliases expand a few
hundred bytes to gigabytes. So only its parser is used, which returns events one at a time and needs
no stack, and values are built from the events within bounds. Two inputs make the parser take
quadratic time, and are bounded as well: deep nesting, and ``%TAG`` directives, which no manifest
needs. JSON is decoded by msgspec, which stops at Python's recursion limit.

Messages contain the problem and the line, but never the input. The caller decides about the meaning
of values and the maximal size of a document.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import yaml
from yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from crds import misfits

Value: TypeAlias = "str | bool | list[Value] | dict[str, Value] | None"
"""The result of ``load_yaml``. Numbers and dates stay strings, as they are written."""


class UntrustedError(ValueError):
    """The text is malformed or exceeds the bounds; the message holds nothing of it."""


class ExceededError(UntrustedError):
    """The text exceeds a bound, so nothing is known about the rest of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits: bytes of the text, levels of nesting, and number of keys, values and containers."""

    size: int
    depth: int
    nodes: int


SMALL: Final = Bounds(size=1 << 20, depth=32, nodes=20_000)
"""A configuration file in a Secret or a ConfigMap, which have a mebibyte at most."""

_T = TypeVar("_T")


def events(data: bytes, bounds: Bounds, *, aliases: bool = False) -> Iterator[Event]:
    """Yield the events of the parser for all documents in ``data``, which must be UTF-8.

    With ``aliases``, aliases and anchors are allowed, and the caller must count their expansions.

    Raises:
        UntrustedError: the input is not YAML, or exceeds the bounds.
    """
    _require_plain(data, bounds)
    depth = nodes = 0
    for event in _parsed(data):
        if isinstance(event, NodeEvent):
            nodes += 1
            if not aliases and event.anchor is not None:
                raise UntrustedError(
                    f"anchors and aliases are not supported{_at(event)}; write the values out"
                )
        if isinstance(event, CollectionStartEvent):
            depth += 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if nodes > bounds.nodes or depth > bounds.depth:
            raise ExceededError(
                f"it has more than {bounds.nodes} nodes or {bounds.depth} levels{_at(event)}"
            )
        yield event


def load_yaml(data: bytes, bounds: Bounds = SMALL) -> Value:
    """Return the only document of ``data``: YAML, or JSON with escapes that YAML has too.

    Aliases, tags, merge keys and duplicate keys are refused. Unquoted words of YAML 1.1 become
    booleans and null; every other scalar, and every key, is a string.

    Raises:
        UntrustedError: the input is something else, or exceeds the bounds.
    """
    builder = _Builder()
    documents = 0
    for event in events(data, bounds):
        documents += isinstance(event, DocumentStartEvent)
        if documents > 1:
            raise UntrustedError(f"it has more than one document{_at(event)}")
        builder.take(event)
    return builder.root


def text(section: Mapping[str, Value], name: str) -> str:
    """Return a string of a mapping; empty if it is missing or null.

    Raises:
        UntrustedError: the value is not a string. The message contains ``name``, which must be
            trusted.
    """
    value = section.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UntrustedError(f"field {name!r} is not a string; quote its value")
    return value


def load_json(data: bytes | str, type: type[_T], *, size: int) -> _T:  # noqa: A002 - as msgspec
    """Return JSON as a value of ``type``; unknown fields are ignored.

    Raises:
        UntrustedError: the input does not have this type, or is too large or too deep.
    """
    if len(data) > size:
        raise ExceededError(f"it is larger than {size} bytes")
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError as exc:
        told = misfits.told(exc)
        raise UntrustedError(f"it is not the JSON that is needed: {told}") from None
    except (msgspec.DecodeError, UnicodeError):
        raise UntrustedError("it is not JSON") from None
    except RecursionError:
        raise ExceededError("it is nested too deeply") from None


_DIRECTIVES: Final = 10
_DIRECTIVE: Final = re.compile(rb"(?:\A|[\n\r]|\xc2\x85|\xe2\x80[\xa8\xa9])(?:\xef\xbb\xbf)?%")
"""A ``%`` in the first column, after each of the parser's line breaks and its byte order mark."""


def _require_plain(data: bytes, bounds: Bounds) -> None:
    if len(data) > bounds.size:
        raise ExceededError(f"it is larger than {bounds.size} bytes")
    # The parser would take UTF-16 as well, in which no directive is found.
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise UntrustedError("it is not UTF-8")
    if data.count(b"%") > _DIRECTIVES and len(_DIRECTIVE.findall(data)) > _DIRECTIVES:
        raise ExceededError(f"it has more than {_DIRECTIVES} lines that begin with '%'")


def _parsed(data: bytes) -> Iterator[Event]:
    try:
        yield from yaml.parse(data, Loader=yaml.CSafeLoader)  # noqa: TID251 - the one place
    except yaml.MarkedYAMLError as exc:
        # The C parser's problems are fixed sentences; other errors quote the input.
        mark, problem = exc.problem_mark, exc.problem or exc.context
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise UntrustedError(f"it is not YAML{place}: {problem}") from None
    except (yaml.YAMLError, UnicodeError):
        raise UntrustedError("it is not YAML: it has characters that YAML does not allow") from None


class _Builder:
    """Turns the events of one document into a value, without recursion."""

    def __init__(self) -> None:
        self.root: Value = None
        self._open: list[tuple[list[Value] | dict[str, Value], str | None]] = []

    def take(self, event: Event) -> None:
        if isinstance(event, CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, ScalarEvent):
            self._place(event, event.value if self._wants_key() else _scalar(event))
        elif isinstance(event, CollectionStartEvent):
            _require_untagged(event)
            if self._wants_key():
                raise UntrustedError(f"a key is not a scalar{_at(event)}")
            inner: list[Value] | dict[str, Value] = (
                {} if isinstance(event, MappingStartEvent) else []
            )
            self._place(event, inner)
            self._open.append((inner, None))

    def _wants_key(self) -> bool:
        container, key = self._open[-1] if self._open else ([], None)
        return isinstance(container, dict) and key is None

    def _place(self, event: Event, value: Value) -> None:
        if not self._open:
            self.root = value
            return
        container, key = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif key is None:
            self._open[-1] = container, _key(event, value, container)
        else:
            container[key] = value
            self._open[-1] = container, None


def _key(event: Any, key: Value, container: Mapping[str, Value]) -> str:
    _require_untagged(event)
    if key == "<<" and event.implicit[0]:
        raise UntrustedError(f"merge keys are not supported{_at(event)}; write the values out")
    if not isinstance(key, str) or key in container:
        raise UntrustedError(f"a key occurs twice{_at(event)}")
    return key


def _scalar(event: ScalarEvent) -> Value:
    _require_untagged(event)
    text: str = event.value
    return _WORDS.get(text, text) if event.implicit[0] else text


def _require_untagged(event: Any) -> None:
    if event.tag is not None:
        raise UntrustedError(f"tags are not supported{_at(event)}; quote a value to make it text")


_WORDS: Final[Mapping[str, bool | None]] = {
    form: value
    for words, value in (
        (("", "~", "null"), None),
        (("yes", "on", "true"), True),
        (("no", "off", "false"), False),
    )
    for word in words
    for form in (word, word.title(), word.upper())
}
"""The plain words that PyYAML resolves to booleans and null."""


def _at(event: Any) -> str:
    return f" (line {event.start_mark.line + 1})" if event.start_mark else ""
