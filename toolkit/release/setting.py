"""Set one value at a path, as ``helm --set`` does (``helm.sh/helm/v4/pkg/strvals``).

The text is ``<path>=<value>``. In a path, a dot leads into an object and ``[n]`` into a list; a
backslash makes the next character literal. A value in braces is a list. ``true``, ``false``,
``null`` and whole numbers get their type, other values are strings. A comma begins the next
assignment, ``a=1,b=2``. Like Helm's parser, this one changes the given objects: if an assignment
fails, the ones before it stay.

The cost of a text is bounded by its size: the sum of list lengths and the nesting are limited.
Messages contain nothing of the text, because a value may be secret.
"""

import re
from collections.abc import Callable
from typing import Any, Final

MOST_INDEX: Final = 65536
MOST_LEVELS: Final = 30
"""Names and indices, one in another. Helm bounds names below names alone, as deep as its stack."""
MOST_PLACES: Final = 1 << 20
"""Places of lists that one text makes or copies."""

_MARKS: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\,[]{}"})
_WHOLE: Final = re.compile(r"[-+]?[0-9]+")
_LARGEST: Final = 1 << 63


class SettingError(ValueError):
    """The text is not an assignment, or does not fit the existing values."""


def require_path(path: str) -> None:
    """Require that a value can be set at the path, whatever values exist.

    Raises:
        SettingError: the path is invalid.
    """
    values: dict[str, Any] = {}
    put(values, path, "x", typed=False)
    if not values:
        raise SettingError("the path names no field")


def put(values: dict[str, Any], path: str, text: str, *, typed: bool = True) -> None:
    """Put the text at the path of ``values``, which is changed.

    ``typed`` turns numbers, booleans and null into such.

    Raises:
        SettingError: the text is not an assignment, or the path leads through a value that is not
            an object or list.
    """
    _Parser(f"{path}={text}", _typed if typed else str).run(values)


def put_quoted(values: dict[str, Any], path: str, text: str) -> None:
    """Set the text at the path as Flux does: a quoted text stays a string.

    Raises:
        SettingError: an error of ``put``.
    """
    quoted = any(text.startswith(mark) and text.endswith(mark) for mark in "'\"")
    put(values, path, text.strip("'\"") if quoted else text, typed=not quoted)


def put_literal(values: dict[str, Any], path: str, text: str) -> None:
    """Set the text at the path as a string, without any interpretation.

    Raises:
        SettingError: the path is invalid, or leads through a value that is not an object or list.
    """
    put(values, path, text.translate(_MARKS), typed=False)


class _EndError(Exception):
    """The text ended."""


class _Parser:
    """Reads from left to right; ``_at`` is the next character."""

    def __init__(self, text: str, convert: Callable[[str], Any]) -> None:
        self._text = text
        self._at = 0
        self._convert = convert
        self._places = MOST_PLACES
        self._ended = False

    def run(self, values: dict[str, Any]) -> None:
        try:
            while True:
                self._key(values, 0)
        except _EndError:
            return

    def _key(self, node: dict[str, Any], level: int) -> None:
        """Read one path from here, and put its value below ``node``."""
        name, mark = self._until("=[,.")
        match mark:
            case "":
                if name:
                    raise SettingError("a path has no value")
                raise _EndError
            case "[":
                self._list(node, name, level)
            case "=":
                _set(node, name, self._value())
                self._require_more()
            case ",":
                raise SettingError("a path has no value before a comma")
            case _:
                self._object(node, name, level + 1)

    def _name(self, node: dict[str, Any], level: int) -> None:
        """Read the rest of a path after a dot; ``level`` counts the names and indices before it."""
        if level > MOST_LEVELS:
            raise SettingError(f"more than {MOST_LEVELS} levels of names and indices")
        self._key(node, level)

    def _object(self, node: dict[str, Any], name: str, level: int) -> None:
        inner = _dict(node[name]) if name in node else {}
        try:
            self._name(inner, level)
            if not inner:
                raise SettingError("a path ends in a dot")
        finally:
            if inner:
                _set(node, name, inner)

    def _list(self, node: dict[str, Any], name: str, level: int) -> None:
        index = self._index()
        found = _listed(node[name]) if name in node else []
        try:
            found = self._item(found, index, level, 1)
        finally:
            _set(node, name, found)

    def _item(self, items: list[Any], index: int, level: int, depth: int) -> list[Any]:
        """Parse the text after an index, and return the list with the value in its place."""
        if depth > MOST_LEVELS:
            raise SettingError(f"more than {MOST_LEVELS} indices, one after another")
        name, mark = self._until("[.=")
        if name or not mark:
            raise SettingError("after the index of a list comes neither '.' nor '[' nor a value")
        there = items[index] if index < len(items) else None
        value: Any
        if mark == "=":
            value = self._value()
        elif mark == "[":
            inner = [] if there is None else _listed(there)
            value = self._item(inner, self._index(), level, depth + 1)
        else:
            value = there if isinstance(there, dict) else {}
            items[index : index + 1] = [value] if index < len(items) else []
            self._name(value, level + depth)
        return self._placed(items, index, value)

    def _placed(self, items: list[Any], index: int, value: Any) -> list[Any]:
        if index >= len(items):
            self._places -= index + 1
            if self._places < 0:
                raise SettingError("the lists are too long")
            items = items + [None] * (index + 1 - len(items))
        items[index] = value
        return items

    def _index(self) -> int:
        text, mark = self._until("]")
        if not mark or not _WHOLE.fullmatch(text):
            raise SettingError("the index of a list is not a number in brackets")
        index = int(text) if len(text) <= len(str(MOST_INDEX)) + 1 else MOST_INDEX + 1
        if not 0 <= index <= MOST_INDEX:
            raise SettingError(f"the index of a list is not between 0 and {MOST_INDEX}")
        return index

    def _require_more(self) -> None:
        """Stop where the text ended before a value; Helm then leaves a list as it was."""
        if self._ended:
            raise _EndError

    def _value(self) -> Any:
        """Return the value from here to the next comma, or a list in braces."""
        if self._at == len(self._text):
            self._ended = True
            return ""
        if self._text[self._at] == "{":
            self._at += 1
            return self._braces()
        text, _ = self._until(",")
        return self._convert(text)

    def _braces(self) -> list[Any]:
        found: list[Any] = []
        while True:
            text, mark = self._until(",}")
            if not mark:
                raise SettingError("list must terminate with '}'")
            found.append(self._convert(text))
            if mark == "}":
                self._at += self._text[self._at : self._at + 1] == ","
                return found

    def _until(self, marks: str) -> tuple[str, str]:
        """Return the text before the next mark, without backslashes, and the mark."""
        found: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character in marks:
                return "".join(found), character
            if character == "\\":
                if self._at == len(self._text):
                    break
                character = self._text[self._at]
                self._at += 1
            found.append(character)
        return "".join(found), ""


def _set(node: dict[str, Any], name: str, value: Any) -> None:
    if name:
        node[name] = value


def _dict(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise SettingError("the path leads through something that is not an object")


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise SettingError("an index is of something that is not a list")


def _typed(text: str) -> Any:
    """Return the typed value of a text (Helm: ``typedVal``)."""
    known = {"true": True, "false": False, "null": None}
    lowered = text.lower()
    if lowered in known:
        return known[lowered]
    if text == "0":
        return 0
    if _WHOLE.fullmatch(text) and not text.startswith("0") and len(text) <= len(str(_LARGEST)) + 1:
        number = int(text)
        if -_LARGEST <= number < _LARGEST:
            return number
    return text
