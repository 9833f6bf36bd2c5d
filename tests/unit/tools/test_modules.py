"""Tests stand alone: what several of them share is in a module that holds no test."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path("tests")


def test_no_test_module_is_imported() -> None:
    found = [
        f"{file} imports {name}"
        for file in sorted(TESTS.rglob("*.py"))
        for name in imported(file.read_text())
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    ]

    assert found == []


def test_every_form_of_import_is_found() -> None:
    names = set(imported("import tests.unit.test_a\nfrom tests.unit import test_b\n"))

    assert {"tests.unit.test_a", "tests.unit.test_b"} <= names


def imported(source: str) -> Iterator[str]:
    """Yield the full name of every module, and of every name from one, that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
