"""A CEL expression, and the outcome of its evaluation. Pure: nothing is parsed here."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from toolkit.errors import StalledError

INVALID: Final = "InvalidCELExpression"
MOST: Final = 256
MOST_CHARACTERS: Final = 64 << 10
"""Limit for all expressions of one object: to compile a thousand takes up to a millisecond."""
LONGEST: Final = 4096
BUDGET: Final = 1_000_000
"""The cost of all evaluations of a reconciliation or request: about a quarter of a second.

cel-go counts about one for each field, call and iteration. Kubernetes allows as much for one
expression.
"""
_SHOWN: Final = 100


class InvalidError(StalledError):
    """An expression cannot be evaluated, whatever the values are."""

    default_reason = INVALID


class BudgetError(StalledError):
    """The evaluation of expressions takes too much of a processor, or of memory."""

    default_reason = INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A text, the ``variables`` that it may read, and the type of its result.

    Without variables it may read every field of the object on which it is evaluated. An empty
    ``result`` allows any type.
    """

    text: str
    variables: tuple[str, ...] = ()
    result: Literal["bool", "string", ""] = "bool"

    @property
    def shown(self) -> str:
        """Return the text for messages, in bounds."""
        return repr(self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…")


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one evaluation.

    It is a ``bool``, a ``string`` (in ``text``), or another value, of which ``text`` is the type.
    It is ``missing`` if a field does not exist or a type does not fit, and ``spent`` if the budget
    was not enough.
    """

    kind: Literal["bool", "string", "other", "missing", "spent"]
    true: bool = msgspec.field(default=False, name="bool")
    text: str = ""


def holds(expression: Expression, outcome: Outcome) -> bool:
    """Tell whether an expression is true; a missing field makes it false, as in Flux.

    Raises:
        BudgetError: its evaluation costs too much.
        InvalidError: the result is not a bool.
    """
    require_evaluated(expression, outcome)
    if outcome.kind == "missing":
        return False
    if outcome.kind != "bool":
        raise InvalidError(f"expression {expression.shown} does not yield a bool")
    return outcome.true


def text_of(expression: Expression, outcome: Outcome) -> str:
    """Return the string that an expression yields.

    Raises:
        BudgetError: its evaluation costs too much.
        InvalidError: the result is not a string, or is empty.
    """
    require_evaluated(expression, outcome)
    if outcome.kind != "string" or not outcome.text:
        raise InvalidError(f"expression {expression.shown} does not yield a text")
    return outcome.text


def require_evaluated(expression: Expression, outcome: Outcome) -> None:
    """Require that the budget was enough.

    Raises:
        BudgetError: it was not.
    """
    if outcome.kind == "spent":
        raise BudgetError(
            f"expression {expression.shown} is too expensive on these values: all evaluations"
            f" together may cost {BUDGET}: use simpler expressions, or shorter lists"
        )


def require_few(texts: Iterable[str]) -> None:
    """Refuse more expressions for one object than are compiled for it.

    Raises:
        InvalidError: there are too many, or they are too long.
    """
    lengths = [len(text) for text in texts if text]
    if len(lengths) > MOST or sum(lengths) > MOST_CHARACTERS:
        raise InvalidError(
            f"there are {len(lengths)} expressions with {sum(lengths)} characters together, more"
            f" than {MOST} or {MOST_CHARACTERS}: use fewer"
        )
