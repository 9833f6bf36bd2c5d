"""The rules of a schema that connect fields, such as that one of two must be set.

They are CEL (``x-kubernetes-validations``), which the API server evaluates for every write. Here
cel-go evaluates the same expressions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.check import fieldnames
from toolkit.expressions.evaluator import Case, Evaluates, Step
from toolkit.expressions.expression import Expression
from toolkit.objects import Json, gvk_of

_RULES: Final = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that an object breaks, and the field that it is about."""

    field: str
    message: str


async def broken(evaluates: Evaluates, obj: Json) -> Sequence[Broken]:
    """Return the rules that an object breaks which fits its schema otherwise.

    Raises:
        BudgetError, TransientError: see ``Evaluator.evaluate``.
    """
    asked = list(_asked(obj, fieldnames.schema(*gvk_of(obj).group_kind), ""))
    if not asked:
        return []
    cases = [
        Case(given={"self": value}, steps=[Step(expression=_expression(rule))])
        for _, value, rule in asked
    ]
    outcomes = await evaluates.evaluate("", cases)
    return [
        Broken(f"{path}{rule.get('fieldPath', '')}", rule["message"])
        for (path, _, rule), (outcome,) in zip(asked, outcomes, strict=True)
        if not (outcome.kind == "bool" and outcome.true)
    ]


def _expression(rule: Mapping[str, Any]) -> Expression:
    return Expression(text=rule["rule"], variables=("self",))


def _asked(
    value: Any, schema: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Yield each value that has a rule, with its path."""
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        implied = {name: each["default"] for name, each in fields.items() if "default" in each}
        for rule in schema.get(_RULES, ()):
            yield path, {**implied, **value}, rule
        others = schema.get("additionalProperties")
        for name, each in value.items():
            inner = fields.get(name, others)
            if isinstance(inner, dict):
                yield from _asked(each, inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _asked(each, schema.get("items", {}), f"{path}[{number}]")
