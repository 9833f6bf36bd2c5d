"""Tests stand alone: what several of them share is in a module that holds no test."""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

TESTS = Path("tests")
STATEMENT = re.compile(
    r"^[ \t]*(?:from[ \t]+tests[\w.]*[ \t]+import[ \t]+(?:\([^)]*\)|.*)|import[ \t]+tests.*)",
    re.MULTILINE,
)
"""An import from the tests, as far as it can be parsed alone."""


def test_no_test_module_is_imported() -> None:
    found = [
        f"{file} imports {name}"
        for file in sorted(TESTS.rglob("*.py"))
        for name in imported(file.read_text())
        if any(part.startswith("test_") for part in name.split("."))
    ]

    assert found == []


def test_every_form_of_import_is_found() -> None:
    lines = (
        "import tests.unit.test_a, tests.unit.plain",
        "from tests.unit import test_b as b",
        "from tests.unit.test_c import (",
        "    name,",
        ")",
        "if True:",
        "    from tests.unit import (plain, test_d)",
    )

    names = set(imported("\n".join(lines)))

    assert {"tests.unit.test_a", "tests.unit.test_b", "tests.unit.test_c.name"} <= names
    assert "tests.unit.test_d" in names


def imported(source: str) -> Iterator[str]:
    """Yield the full name of every module, and of every name from one, imported from the tests."""
    for statement in STATEMENT.finditer(source):
        for node in ast.parse(textwrap.dedent(statement.group())).body:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
