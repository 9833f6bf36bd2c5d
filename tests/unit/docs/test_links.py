"""Every link of the documentation leads somewhere: to a file that is there, to a heading in it."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ELSEWHERE = ("https://", "http://", "mailto:")


def links(page: Path) -> list[str]:
    found = _LINK.findall(_CODE.sub("", page.read_text()))
    return [link for link in found if not link.startswith(_ELSEWHERE)]


def anchors(page: Path) -> set[str]:
    """Return what headings are called in links, as GitHub makes it of them."""
    seen: Counter[str] = Counter()
    names = set()
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page

        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_there_are_links_to_headings() -> None:
    assert any("#" in link for page in PAGES for link in links(page))


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = {link.partition("#")[0] for link in links(ROOT / "docs" / "README.md")}

    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed
