"""Examples use what their readers have: public interfaces, and nothing of this repository."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "docs/examples").rglob("*.py"))
OURS = {path.name for path in ROOT.iterdir() if path.is_dir()}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_an_example_imports_nothing_of_ours(program: Path) -> None:
    tree = ast.parse(program.read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert {name.partition(".")[0] for name in imported} & OURS == set()


def test_there_are_examples() -> None:
    assert PROGRAMS
