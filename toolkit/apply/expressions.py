"""CEL expressions of tenants: compiled once, with limits on their cost.

The engine has no cost limit and holds the interpreter while it runs. So an expression is refused if
it is too long, and not evaluated on an object whose lists would make its comprehensions too
expensive. Patterns are compiled at every call, so they must be literals without counted repetition.
A missing field makes the whole expression false, as in Flux.

This module does not know the purpose of an expression: see ``health`` and ``ready_expression``.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from toolkit import errors
from toolkit.apply import celengine
from toolkit.objects import Json

INVALID: Final = "InvalidCELExpression"
MOST: Final = 256
MOST_CHARACTERS: Final = 64 << 10
"""Limit for all expressions of one object: compiling a thousand takes up to four milliseconds."""
_COMPILED: Final = 128
_MAX_LENGTH: Final = 4096
_MAX_STEPS: Final = 100_000
"""About 20 ms: the engine makes five million steps a second."""
_STEP: Final = 100
"""Characters of a string that cost as much as an element of a list."""
_MATCH_STEPS: Final = 2_000
_MAP: Final = re.compile(r"\.\s*map\s*\(")
_MATCH: Final = re.compile(r"\bmatches\s*\(")
_LITERAL_MATCH: Final = re.compile(
    r"""\.\s*matches\s*\(\s*[rR]?(?:"(?:\\.|[^"\\{])*"|'(?:\\.|[^'\\{])*')\s*\)"""
)
_MACROS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})
_QUOTED: Final = r"""[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_STRING: Final = re.compile(_QUOTED, re.DOTALL)
_TOKEN: Final = re.compile(
    _QUOTED + r"|(?P<macro>\.\s*(?P<name>\w+)\s*\()|(?P<open>\()|(?P<close>\))|//[^\n]*",
    re.DOTALL,
)
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_TESTS: Final = frozenset({"contains", "endsWith", "has", "matches", "size", "startsWith"})
_DATES: Final = re.compile(
    r"get(?:Date|DayOf(?:Month|Week|Year)|FullYear|Month|Hours|Minutes|Seconds|Milliseconds)"
)


class Expression:
    """A compiled expression with a boolean result.

    Raises:
        StalledError: (reason ``InvalidCELExpression``) it does not compile, is too long, calls an
            unknown function, or has a pattern that could be expensive.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            raise _invalid(f"expression is longer than {_MAX_LENGTH} characters")
        try:
            self._program = celengine.load().compile(text)
        except ValueError as exc:
            first = str(exc).partition("\n")[0]
            raise _invalid(first[0].lower() + first[1:]) from exc
        self.text = text
        self._depth = _nesting(text)
        self._growth = _growth(text)
        self._literal = max(map(len, _STRING.findall(text)), default=0) // _STEP
        self._matches = len(_MATCH.findall(text))
        self._variables = frozenset(self._program.variables())
        unknown = sorted(filter(_undeclared, self._program.functions()))
        if unknown:
            raise _invalid(f"expression calls undeclared function {unknown[0]!r}")
        if self._matches != len(_LITERAL_MATCH.findall(text)):
            raise _invalid("matches() takes one literal pattern without counted repetition")

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Evaluate it; a missing field or variable, or a type that does not fit, is false.

        Raises:
            StalledError: the result is not a bool, or it would cost too much on these values.
        """
        result = self._result(variables, missing=False)
        if not isinstance(result, bool):
            raise _invalid(f"expression {self.text!r} does not yield a bool")
        return result

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Return the value of the expression; None if a field is missing, as in ``holds``.

        Raises:
            StalledError: the evaluation would cost too much on these values.
        """
        return self._result(variables, missing=None)

    def text_of(self, variables: Mapping[str, Any]) -> str:
        """Return the value of the expression, which must be a string.

        Raises:
            StalledError: the result is not a string or is empty, or would cost too much.
        """
        result = self._result(variables, missing=None)
        if not isinstance(result, str) or not result:
            raise _invalid(f"expression {self.text!r} does not yield a text")
        return result

    def _result(self, variables: Mapping[str, Any], *, missing: object) -> Any:
        used = {key: value for key, value in variables.items() if key in self._variables}
        if self._cost(used) > _MAX_STEPS:
            raise _invalid(f"expression {self.text!r} is too expensive on lists of this length")
        try:
            return self._program.execute(used)
        # the library raises these for absent keys, indexes and variables and for mixed types
        except (LookupError, RuntimeError, TypeError, ValueError, ArithmeticError):
            return missing

    def _cost(self, variables: Mapping[str, Any]) -> int:
        """Return an upper bound of the steps that an evaluation takes."""
        size = 1
        if self._depth or self._growth > 1:
            longest = max(_longest(variables), self._literal, self.text.count(",") + 1)
            size = longest * self._growth
        # what map() collects may be lists again
        depth = self._depth + (_MAP.search(self.text) is not None)
        return int(size ** max(depth, 1)) * max(1, self._matches * _MATCH_STEPS)


@functools.lru_cache(maxsize=_COMPILED)
def compiled(text: str) -> Expression:
    """Return a compiled expression, cached because reconciliations repeat them.

    Raises:
        StalledError: an error of ``Expression``.
    """
    return Expression(text)


def require_few(texts: Iterable[str]) -> None:
    """Refuse more expressions for one object than are compiled for it.

    Raises:
        StalledError: reason ``InvalidCELExpression``; there are too many, or they are too long.
    """
    lengths = [len(text) for text in texts if text]
    if len(lengths) > MOST or sum(lengths) > MOST_CHARACTERS:
        raise _invalid(
            f"there are {len(lengths)} expressions with {sum(lengths)} characters together, more"
            f" than {MOST} or {MOST_CHARACTERS}: use fewer"
        )


def ready_expression(text: str) -> Callable[[Json, Json], bool]:
    """Compile ``dependsOn[].readyExpr``: a test over ``self`` and ``dep``.

    Raises:
        StalledError: reason ``InvalidCELExpression``.
    """
    expression = compiled(text)
    return lambda self, dep: expression.holds({"self": self, "dep": dep})


def _invalid(message: str) -> errors.StalledError:
    return errors.StalledError(message, reason=INVALID)


def _undeclared(function: str) -> bool:
    # operators have names as well, such as _&&_
    named = function.isidentifier() and function.strip("_") != ""
    known = function in _CONVERSIONS | _TESTS or _DATES.fullmatch(function)
    return named and not known


def _nesting(text: str) -> int:
    """Return the nesting depth of comprehensions."""
    return max((1 + depth for _, _, depth in _macros(text)), default=0)


def _growth(text: str) -> int:
    """Return an upper bound of the factor by which a value can grow.

    Each ``+`` and each element of a list adds a value once. Inside a ``map`` it adds the value once
    for every ``map`` before, since one works on the result of the other.
    """
    bodies = [body for name, body, _ in _macros(text) if name == "map"]
    added = text.count("+") - sum(body.count("+") for body in bodies)
    # one comma parts the macro's variable from the rest
    factors = (body.count("+") + max(body.count(","), 1) for body in bodies)
    return math.prod(factors, start=1 + max(added, 0))


def _macros(text: str) -> list[tuple[str, str, int]]:
    """Return name, inside, and number of macros around, of each macro that is called."""
    found: list[tuple[str, str, int]] = []
    opened: list[tuple[str, int]] = []
    for token in _TOKEN.finditer(text):
        if token["macro"] or token["open"]:
            name = token["name"] or ""
            opened.append((name if name in _MACROS else "", token.end()))
        elif token["close"] and opened:
            name, start = opened.pop()
            if name:
                around = sum(bool(other) for other, _ in opened)
                found.append((name, text[start : token.start()], around))
    return found


def _longest(value: object) -> int:
    """Return the size of the largest list, map or (in ``_STEP`` characters) string inside."""
    if isinstance(value, str):
        return len(value) // _STEP
    if isinstance(value, Mapping):
        return max(len(value), *map(_longest, value.values()), 0)
    if isinstance(value, list):
        return max(len(value), *map(_longest, value), 0)
    return 0
