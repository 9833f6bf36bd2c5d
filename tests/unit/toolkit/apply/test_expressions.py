"""CEL expressions: what they may say, and what they may cost."""

from typing import Any

import pytest

from toolkit import errors
from toolkit.apply import expressions
from toolkit.apply.expressions import Expression

READY = "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')"


def _status(*conditions: tuple[str, str]) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": t, "status": s} for t, s in conditions]}}


@pytest.mark.parametrize(
    ("text", "variables", "holds"),
    [
        (READY, _status(("Ready", "True"), ("Other", "False")), True),
        (READY, _status(("Ready", "False")), False),
        (READY, {}, False),
        ("status.missing == 1", _status(), False),
        ("has(status.missing)", _status(), False),
        ("!has(status.missing)", _status(), True),
        ("status.conditions[3].type == 'x'", _status(), False),
        ("status.conditions > 3", _status(), False),
        ("1 / int(size(status.conditions)) == 1", _status(), False),
        ("metadata.name.matches('^a+$')", {"metadata": {"name": "aaa"}}, True),
        ("metadata.generation == 2.0", {"metadata": {"generation": 2}}, True),
    ],
)
def test_missing_fields_and_mixed_types_are_false(
    text: str,
    variables: dict[str, Any],
    holds: bool,  # noqa: FBT001 - a table
) -> None:
    assert Expression(text).holds(variables) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 +", "failed to parse"),
        ("", "failed to parse"),
        ("nosuch(1) == 1", "undeclared function 'nosuch'"),
        ("'a'.lowerAscii() == 'a'", "undeclared function 'lowerAscii'"),
        ("x" * 5000, "longer than"),
        ("(" * 1000 + "1" + ")" * 1000, "failed to parse"),
        ("a.matches(b)", "one literal pattern"),
        ("a.matches('(x{1000}){1000}')", "one literal pattern"),
        ("matches(a, 'x')", "one literal pattern"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_when_compiled(text: str, why: str) -> None:
    with pytest.raises(errors.StalledError, match=why) as caught:
        Expression(text)

    assert caught.value.reason == "InvalidCELExpression"


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("x.all(a, x.all(b, a == b))", {"x": list(range(1000))}),
        ("x.map(a, x.map(b, x)) == []", {"x": list(range(50))}),
        ("x" + "+x" * 500 + " == []", {"x": list(range(1000))}),
        ("x" + "+x" * 500 + " == 'a'", {"x": "a" * 1_000_000}),
        ("x.exists(a, a.matches('b'))", {"x": ["c"] * 100}),
        ("y.all(a, a) || x.all(a, x.all(b, a == b))", {"x": list(range(1000)), "y": []}),
        ("['" + "y" * 900 + "']" + ".map(x,x+x+x+x+x)" * 8 + "[0].size() > 0", {}),
        ("[1]" + ".map(x,[x,x])" * 30 + " == []", {}),
        ("[1]" + ".map(x,{'a':x,'b':x})" * 30 + " == []", {}),
        ("[1].map(x, true, [x,x])" + ".map(x, (x + x))" * 20 + " == []", {}),
    ],
)
def test_what_would_take_too_long_is_refused_when_evaluated(
    text: str, variables: dict[str, Any]
) -> None:
    with pytest.raises(errors.StalledError, match="too expensive"):
        Expression(text).holds(variables)


def test_parts_may_be_put_together_in_a_list_of_usual_length() -> None:
    text = "x.map(e, e.type + '=' + e.status).exists(s, s == 'Ready=True')"
    conditions = [{"type": f"t{n}", "status": "False"} for n in range(30)]

    assert Expression(text).holds({"x": [*conditions, {"type": "Ready", "status": "True"}]})


def test_large_fields_that_are_not_looked_at_cost_nothing() -> None:
    variables = _status(("Ready", "True")) | {"spec": {"items": list(range(1_000_000))}}

    assert Expression(READY).holds(variables)


def test_a_result_that_is_no_bool_is_refused() -> None:
    with pytest.raises(errors.StalledError, match="does not yield a bool"):
        Expression("1 + 1").holds({})


def test_parentheses_in_strings_do_not_hide_nesting() -> None:
    text = "x.exists(a, a == ')))' && x.exists(b, b == a))"

    with pytest.raises(errors.StalledError, match="too expensive"):
        Expression(text).holds({"x": ["y"] * 1000})


def test_a_ready_expression_sees_both_objects() -> None:
    ready = expressions.ready_expression(
        "dep.status.version == self.spec.version && dep.status.version != ''"
    )

    assert ready({"spec": {"version": "2"}}, {"status": {"version": "2"}})
    assert not ready({"spec": {"version": "2"}}, {"status": {"version": "1"}})
    assert not ready({"spec": {}}, {"status": {}})
