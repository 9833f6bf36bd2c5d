"""Every right to write, to read Secrets or to become someone has a row among the deputies."""

import re
from fnmatch import fnmatchcase

from tests.docs.pages import ROOT
from tests.docs.permissions import rights

SECTION = "## Deputies"


def table() -> list[list[str]]:
    page = (ROOT / "docs/security.md").read_text()
    section = page.partition(f"\n{SECTION}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def patterns() -> list[str]:
    return [pattern for row in table() for pattern in re.findall(r"`([^`]+)`", row[1])]


def test_every_right_of_ours_has_a_row() -> None:
    listed = patterns()

    assert listed
    assert sorted(r for r in rights() if not any(fnmatchcase(r, each) for each in listed)) == []


def test_no_row_names_a_right_that_nobody_has() -> None:
    granted = rights()

    assert [each for each in patterns() if not any(fnmatchcase(r, each) for r in granted)] == []


def test_every_row_is_complete_and_no_deputy_is_listed_twice() -> None:
    rows = table()

    assert all(len(row) == 6 and all(row) for row in rows)
    assert len({row[0] for row in rows}) == len(rows)


def test_a_right_that_is_granted_without_a_row_is_found() -> None:
    listed = patterns()

    assert not any(fnmatchcase("source-controller: impersonate users", each) for each in listed)
    assert not any(fnmatchcase("webhook: create pods", each) for each in listed)
    assert not any(fnmatchcase("image-controller: create configmaps", each) for each in listed)
