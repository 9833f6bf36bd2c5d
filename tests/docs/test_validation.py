"""``docs/validation.md`` has a row for every rule, in order, with the rule's own words."""

import re
from pathlib import Path
from typing import Any

import pytest

from crds import schema
from webhooks.hints import admission as hints
from webhooks.validation import CHECKS, patches, shapes, verdict
from webhooks.validation.admission import _SMALL
from webhooks.validation.rule import Checks, Rule

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


def rules(checks: Checks[Any]) -> list[Rule[Any]]:
    circle = [checks.circle] if checks.circle else []
    return [*shapes.rules(checks), *checks.rules, *circle]


def row(rule: Rule[Any]) -> str:
    fields = ", ".join(f"`{field}`" for field in rule.fields)
    outcome = "refused" if rule.refuses else "warned of"
    cells = (f"`{rule.name}`", fields, rule.demands, outcome, rule.remedy)
    return f"| {' | '.join(cells)} |"


def section(kind: str) -> list[str]:
    text = PAGE.read_text().partition(f"\n### {kind}\n")[2].partition("\n### ")[0]
    return [line for line in text.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("checks", CHECKS, ids=lambda checks: checks.kind.kind)
def test_the_rules_of_a_kind_are_told(checks: Checks[Any]) -> None:
    assert section(checks.kind.kind) == [row(rule) for rule in rules(checks)]


def test_no_other_rules_are_told() -> None:
    told = re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)

    assert told == [checks.kind.kind for checks in CHECKS]


@pytest.mark.parametrize("checks", CHECKS, ids=lambda checks: checks.kind.kind)
def test_the_fields_of_rules_exist(checks: Checks[Any]) -> None:
    known = schema.annotated(checks.kind.model)

    for rule in rules(checks):
        for field in rule.fields:
            if field.startswith("metadata.annotations["):  # of any object
                continue
            assert _stands(known, field), f"{checks.kind.kind}: {field}"


def _stands(node: Any, path: str) -> bool:
    for part in path.split("."):
        node = node.get("properties", {}).get(part.removesuffix("[]"))
        if node is None:
            return False
        node = node.get("items", node) if part.endswith("[]") else node
    return True


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (verdict._MOST_SHOWN, "up to 16 places"),
        (_SMALL, "a spec of more than 8 KiB"),
        (patches._MOST, "patches beyond 128 KiB"),
        (patches._MOST_TARGETS, "targets of patches beyond 200"),
        (hints._MOST, "the first 12 names"),
        (hints._SECONDS, "at most two seconds"),
    ],
)
def test_the_bounds_are_told(bound: float, words: str) -> None:
    number = words.split()
    units = {"KiB": 1024}
    told = [{"two": 2}.get(word) or (int(word) if word.isdigit() else None) for word in number]
    (value,) = [each for each in told if each is not None]
    scale = next((units[word] for word in number if word in units), 1)

    assert value * scale == bound
    assert words in " ".join(PAGE.read_text().split())
