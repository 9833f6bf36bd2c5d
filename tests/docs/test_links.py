"""What pages point to is there: files, headings, modules, tests."""

import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ELSEWHERE = ("https://", "http://", "mailto:")


# What Git ignores may lie here, too: results of builds.
IGNORED = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]


def ignored(name: str) -> bool:
    return name[0] == "." or any(fnmatch(name, pattern) for pattern in IGNORED)


FOLDERS = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not ignored(path.name))
_PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)")
PACKAGES = [name for name in FOLDERS if (ROOT / name / "__init__.py").is_file()]
CHART_VALUES = {"crds.install", "crds.keep"}
"""Values of the Helm chart that have the name of a package."""
_MODULE = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")
_FILE = re.compile(r"`([a-z_]+\.py)`")


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


def broken(page: Path) -> list[str]:
    """Return the links to files or headings that there are not."""
    found = []
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.parametrize("target", ["gone.md", "here.md#gone", "#gone", "gone/"])
def test_link_that_leads_nowhere_is_found(tmp_path: Path, target: str) -> None:
    (tmp_path / "here.md").write_text("# Here\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Top\n\n```\n# gone\n```\n\n[fine](here.md#here), [broken]({target})\n")

    assert broken(page) == [target]


def test_headings_are_called_as_on_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `spec.wait`: what for?\n## Twice\n## Twice\n")

    assert anchors(page) == {"specwait-what-for", "twice", "twice-1"}


def test_folders_that_git_ignores_are_none_of_the_sources() -> None:
    assert [ignored(name) for name in ("build", "penstock.egg-info", "cli")] == [True, True, False]


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = {link.partition("#")[0] for link in links(ROOT / "docs" / "README.md")}

    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    text = page.read_text()

    assert [path for path in _PATH.findall(text) if not (ROOT / path).exists()] == []
    assert set(_FILE.findall(text)) <= {path.name for path in _sources()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_are_named_are_there(page: Path) -> None:
    assert [name for name in _MODULE.findall(page.read_text()) if not _known(name)] == []


def _sources() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def _known(name: str) -> bool:
    """Tell whether it is a package, a module, or something that one of them defines."""
    if name in CHART_VALUES:
        return True
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent.with_suffix(".py")
    home = module if module.is_file() else path.parent / "__init__.py"
    return home.is_file() and re.search(rf"\b{path.name}\b", home.read_text()) is not None
