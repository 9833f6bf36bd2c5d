"""Every place that parses has a row, and the rows are those of ``docs/security.md``."""

from pathlib import Path

import pytest

from tests.docs import parsing
from tests.docs.exempt import EXEMPT
from tests.docs.pages import ROOT
from tests.fuzz.parsers import ROWS
from toolkit.helm import worker as helm
from toolkit.native import engineworker

SECTION = "## Readers of untrusted input"
PLACES = tuple(parsing.places(ROOT))
LISTED = frozenset(
    f"{module} {family}"
    for row in ROWS
    for module, *families in (place.split() for place in row.places)
    for family in families
)
ELSEWHERE = {
    "tests/contract/helm/test_hostile.py": helm.OPERATIONS,  # with a cluster, in confined workers
}


def table() -> list[list[str]]:
    page = (ROOT / "docs/security.md").read_text()
    section = page.partition(f"\n{SECTION}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def is_exempt(place: str, exempt: str) -> bool:
    module = place.split(maxsplit=1)[0]
    return exempt in (place, module) or (exempt.endswith("/") and module.startswith(exempt))


def test_whatever_parses_has_a_row() -> None:
    missing = [
        place
        for place in PLACES
        if place not in LISTED and not any(is_exempt(place, exempt) for exempt in EXEMPT)
    ]

    assert missing == []


def test_no_row_and_no_exemption_is_left_over() -> None:
    assert sorted(LISTED - set(PLACES)) == []
    unused = [
        exempt
        for exempt in EXEMPT
        if not any(is_exempt(place, exempt) for place in PLACES if place not in LISTED)
    ]
    assert unused == []


def test_every_operation_of_the_engine_is_fed() -> None:
    fed = {operation for row in ROWS for operation in row.operations}
    charts = {"chart.inspect", "chart.package"}  # toolkit/chart/worker.py

    assert fed == {*engineworker.OPERATIONS, *charts}
    for test, operations in ELSEWHERE.items():
        assert (ROOT / test).is_file()
        assert operations


def test_the_page_has_the_rows_with_their_bounds() -> None:
    stated = [[row.name, row.runs, f"{row.seconds:g} s", f"{row.memory} MiB"] for row in ROWS]

    assert [[cells[0], cells[2].strip("`"), *cells[4:6]] for cells in table()] == stated
    assert all(all(cells) for cells in table())


@pytest.mark.parametrize(
    ("source", "families"),
    [
        ("import yaml\nyaml.safe_load('a')\n", {"yaml"}),
        ("from yaml import safe_load as read\nread('a')\n", {"yaml"}),
        ("import json as j\nj.loads('a')\n", {"json"}),
        ("import re\nre.compile('a')\nre.compile(_A)\n", set()),
        ("import re\ndef f(given):\n    re.search(given, 'a')\n", {"pattern"}),
        ("from urllib import parse\nparse.urlsplit('a')\n", {"url"}),
        ("import tarfile\ntarfile.open('a')\n", {"archive"}),
        ("def parse(text): ...\n", {"own"}),
        ("import yaml\nyaml.dump('a')\n", set()),
    ],
)
def test_a_new_reader_is_found(source: str, families: set[str]) -> None:
    assert parsing.families(source) == families


def test_the_library_of_urls_is_called_in_one_place() -> None:
    """It raises an ``IndexError`` for some texts, which nobody expects."""
    found = [
        str(path.relative_to(ROOT))
        for package in parsing.PACKAGES
        if package != "cli"
        for path in sorted((ROOT / package).rglob("*.py"))
        if "yarl.URL" in parsing.called(Path(path).read_text())
    ]

    assert found == ["toolkit/remote/webaddress.py"]
