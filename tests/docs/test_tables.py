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
    for header, *rows in tables(page):
        assert rows, header
        assert re.fullmatch(r"\|(-+\|)+", rows[0]), header
        assert {row: cells(row) for row in rows if cells(row) != rows[0].count("|") - 1} == {}


def test_there_are_tables() -> None:
    assert any(list(tables(page)) for page in PAGES)
