"""Label and field selectors with upstream's grammar and messages.

``apimachinery/pkg/labels/selector.go`` and ``pkg/fields/selector.go``. One difference: the number
of requirements is limited, because each is evaluated for every object.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from apiserver import labelkeys, status
from apiserver.item import Item
from toolkit.objects import Json

MOST: Final = 256
"""Requirements in one selector."""
_LONGEST: Final = 32 << 10

Operator = Literal["in", "notin", "=", "==", "!=", "exists", "!", "gt", "lt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A requirement on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels meets it."""
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value is not None and value in self.values
            case "notin" | "!=":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt" | "lt":
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        (bound,) = self.values
        number = labelkeys.integer(value)
        if number is None:
            return False
        return number > int(bound) if self.operator == "gt" else number < int(bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A requirement on one field; ``read`` returns it from an object."""

    field: str
    read: Callable[[Json], str]
    equal: bool
    value: str

    def matches(self, value: str) -> bool:
        """Tell whether an object with this value meets it."""
        return (value == self.value) is self.equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """The selected objects; an empty selector selects all."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Term, ...] = ()

    @property
    def empty(self) -> bool:
        """Tell whether it selects everything."""
        return not self.labels and not self.fields

    def matches(self, item: Item) -> bool:
        """Tell whether an item is selected."""
        if self.empty:
            return True
        if self.labels:
            labels = item.labels
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return not self.fields or self._match_fields(item.obj)

    def _match_fields(self, obj: Json) -> bool:
        """Tell whether all fields are as asked; each is read once, however many terms name it."""
        values: dict[str, str] = {}
        for term in self.fields:
            if term.field not in values:
                values[term.field] = term.read(obj)
            if not term.matches(values[term.field]):
                return False
        return True

    def exactly(self, field: str) -> str | None:
        """Return the only value that a field may have; None if it may have several."""
        values = (term.value for term in self.fields if term.equal and term.field == field)
        return next(values, None)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector.

    Raises:
        StatusError: 400, with upstream's message.
    """
    _bound(text)
    tokens = _Tokens(text)
    found: dict[Requirement, None] = {}
    while tokens.kind() != "end":
        if tokens.kind() not in {"word", "!"}:
            raise _unexpected(tokens.text(), "!, identifier, or 'end of string'")
        try:
            found[_requirement(tokens)] = None
        except status.StatusError as exc:
            raise status.bad_request(f"unable to parse requirement: {exc.message}") from exc
        _limit(len(found))
        if tokens.kind() == "end":
            break
        if tokens.kind() != ",":
            raise _unexpected(tokens.text(), "',' or 'end of string'")
        tokens.take()
        if tokens.kind() not in {"word", "!"}:
            raise _unexpected(tokens.text(), "identifier after ','")
    return tuple(found)


def parse_fields(text: str, known: Mapping[str, Callable[[Json], str]]) -> tuple[Term, ...]:
    """Read a field selector that may name these fields, and ``metadata.{name,namespace}``.

    Raises:
        StatusError: 400, with upstream's message.
    """
    _bound(text)
    readers = _METADATA | dict(known)
    found: dict[Term, None] = {}
    for part in filter(None, _split(text)):
        match = _OPERATOR.search(part)
        if match is None:
            raise status.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        field, value = part[: match.start()], _unescape(part[match.end() :])
        if field not in readers:
            names = ", ".join(f'"{name}"' for name in readers)
            raise status.bad_request(f'"{field}" is not a known field selector: only {names}')
        equal = match.group() != "!="
        found[Term(field=field, read=readers[field], equal=equal, value=value)] = None
        _limit(len(found))
    return tuple(found)


def named(name: str) -> Term:
    """Return the term that selects one name."""
    return Term(field="metadata.name", read=_METADATA["metadata.name"], equal=True, value=name)


_METADATA: Final[dict[str, Callable[[Json], str]]] = {
    "metadata.name": lambda obj: str(obj["metadata"].get("name", "")),
    "metadata.namespace": lambda obj: str(obj["metadata"].get("namespace", "")),
}
_OPERATOR: Final = re.compile(r"!=|==|=")
_SYMBOLS: Final = "=!(),><"
_KNOWN: Final = (")", ",", "!", "==", "=", ">", "<", "!=", "(")
_EXACT: Final[dict[str, Operator]] = {"=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_BINARY: Final = "in, notin, =, ==, !=, gt, lt"


class _Tokens:
    """A label selector's words and symbols (``Lexer`` and the token buffer of ``Parser``)."""

    def __init__(self, text: str) -> None:
        self._found = list(_lex(text))
        self._at = 0

    def kind(self) -> str:
        """Return the symbol, ``word``, ``end``, or ``error``."""
        return self._found[self._at][0]

    def text(self) -> str:
        """Return the word unchanged."""
        return self._found[self._at][1]

    def take(self) -> str:
        """Return the word, and step on; the end is never left."""
        text = self.text()
        self._at = min(self._at + 1, len(self._found) - 1)
        return text


def _lex(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        char = text[at]
        if char in " \t\r\n":
            at += 1
        elif char in _SYMBOLS:
            symbol = next((text[at : at + n] for n in (2, 1) if text[at : at + n] in _KNOWN), "")
            yield symbol, symbol
            at += len(symbol)
        else:
            word = _WORD.match(text, at)
            assert word is not None  # noqa: S101 - its first character is neither a symbol nor a blank
            yield "word", word.group()
            at = word.end()
    yield "end", ""


_WORD: Final = re.compile(r"[^=!(),>< \t\r\n]+")


def _requirement(tokens: _Tokens) -> Requirement:
    absent = tokens.kind() == "!"
    if absent:
        tokens.take()
    if tokens.kind() != "word":
        raise _unexpected(tokens.text(), "identifier")
    key = tokens.take()
    labelkeys.check_key(key)
    if absent or tokens.kind() in {"end", ","}:
        return Requirement(key=key, operator="!" if absent else "exists")
    word = tokens.take()
    if word in {"in", "notin"}:
        return _valid(key, "in" if word == "in" else "notin", _values(tokens))
    if word not in _EXACT:
        raise _unexpected(word, _BINARY)
    if tokens.kind() in {"end", ","}:
        return _valid(key, _EXACT[word], {""})
    if tokens.kind() != "word":
        raise _unexpected(tokens.text(), "identifier")
    return _valid(key, _EXACT[word], {tokens.take()})


def _values(tokens: _Tokens) -> set[str]:
    """Read ``(a,b,)``; an empty place is the empty string."""
    opening = tokens.take()
    if opening != "(":
        raise status.bad_request(f"found '{opening}' expected: '('")
    values: set[str] = set()
    while True:
        values.add(tokens.take() if tokens.kind() == "word" else "")
        if tokens.kind() == ")":
            tokens.take()
            return values
        if tokens.kind() != ",":
            raise _unexpected(tokens.text(), "',' or ')'")
        tokens.take()


def _valid(key: str, operator: Operator, values: set[str]) -> Requirement:
    for index, value in enumerate(sorted(values)):
        if operator in {"gt", "lt"} and labelkeys.integer(value) is None:
            raise status.bad_request(
                f"values[{index}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value"
                " must be an integer"
            )
        labelkeys.check_value(key, value, index)
    return Requirement(key=key, operator=operator, values=frozenset(values))


def _split(text: str) -> Iterator[str]:
    """Yield the terms between commas; a backslash takes the next character's meaning away."""
    start, escaped = 0, False
    for at, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _unescape(text: str) -> str:
    made, rest = [], iter(text)
    for char in rest:
        if char in ",=":
            raise status.bad_request(
                f"invalid field selector: unescaped character in value: {ord(char)}"
            )
        if char != "\\":
            made.append(char)
            continue
        after = next(rest, "")
        if after not in {"\\", ",", "="}:
            raise status.bad_request(f"invalid field selector: invalid escape sequence: \\{after}")
        made.append(after)
    return "".join(made)


def _bound(text: str) -> None:
    if len(text) > _LONGEST:
        raise status.bad_request(f"a selector has at most {_LONGEST} characters")


def _limit(count: int) -> None:
    if count > MOST:
        raise status.bad_request(f"a selector has at most {MOST} requirements")


def _unexpected(found: str, expected: str) -> status.StatusError:
    return status.bad_request(f"found '{found}', expected: {expected}")
