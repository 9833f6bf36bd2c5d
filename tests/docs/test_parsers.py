"""The table of parsers in ``docs/security.md`` and the parsers that are fuzzed are the same."""

from tests.docs.pages import ROOT
from tests.fuzz.parsers import ROWS

SECTION = "## Parsers of untrusted input"


def test_every_parser_of_the_table_is_fuzzed_and_the_other_way_round() -> None:
    page = (ROOT / "docs/security.md").read_text()
    section = page.partition(SECTION)[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]

    listed = [row.split(" | ")[0].removeprefix("| ") for row in rows[1:]]

    assert listed == [row.name for row in ROWS]
