"""Tables are drawn as tables: a header, a rule below it, and as many cells in every row."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT


def tables(page: Path) -> Iterator[list[str]]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for is_table, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            yield list(lines)


def cells(line: str) -> int:
    return len(re.split(r"(?<!\\)\|", line.strip().strip("|")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_belong_to_a_table(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("| a | b |\n| 1 | 2 |\n", "| a | b |"),
        ("| a | b |\n\n", "| a | b |"),
        ("| a | b |\n|---|---|\n| 1 |\n", "| 1 |"),
        ("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n", "| 1 | 2 | 3 |"),
        ("| a | b | c |\n|---|---|\n| 1 | 2 |\n", "| a | b | c |"),
    ],
    ids=["no rule", "alone", "few cells", "many cells", "header"],
)
def test_lines_that_draw_no_table_are_found(tmp_path: Path, table: str, line: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"| fine |\n|---|\n| a \\| b |\n\n```\n| code |\n```\n\n{table}")

    assert broken(page) == [line]


def broken(page: Path) -> list[str]:
    """Return headers without a rule below them, and lines with other cells than the rule."""
    found = []
    for header, *rows in tables(page):
        if not rows or not re.fullmatch(r"\|(-+\|)+", rows[0]):
            found.append(header)
        else:
            found += [row for row in (header, *rows) if cells(row) != rows[0].count("|") - 1]
    return found
