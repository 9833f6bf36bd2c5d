"""A chart in a directory is what ``helm package`` would take of it."""

from pathlib import Path

import pytest

from tests.fakes.charts import write
from toolkit.chart import directory, limits
from toolkit.chart.directory import Rules
from toolkit.chart.package import PackageError


def ignored(rules: str, path: str, *, is_directory: bool = False) -> bool:
    return Rules.parse(rules).ignore(path.split("/"), is_directory=is_directory)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("*.txt", "a.txt"),
        ("*.txt", "deep/down/a.txt"),
        ("/a.txt", "a.txt"),
        ("docs/*.md", "docs/a.md"),
        ("a?c", "abc"),
        ("[ab].txt", "b.txt"),
        ("  spaced.txt  ", "spaced.txt"),
        ("# comment\na", "a"),
        ("!keep.txt", "everything.else"),
    ],
)
def test_rule_shuts_out(rule: str, path: str) -> None:
    assert ignored(rule, path)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("*.txt", "a.md"),
        ("/a.txt", "b/a.txt"),
        ("docs/*.md", "docs/deep/a.md"),
        ("docs/*.md", "x/docs/a.md"),
        ("docs/", "docs"),
        ("!keep.txt", "keep.txt"),
        ("", "a"),
        ("#a", "a"),
    ],
)
def test_rule_leaves_alone(rule: str, path: str) -> None:
    assert not ignored(rule, path)


def test_rule_for_directories_shuts_them_out() -> None:
    assert ignored("docs/", "docs", is_directory=True)


def test_hidden_templates_stay_out_always() -> None:
    assert ignored("", "templates/.hidden")
    assert not ignored("", "templates/_helpers.tpl")


@pytest.mark.parametrize("rule", ["a/**/b", "[a", "a\n" * 2000])
def test_rule_that_helm_does_not_take_is_refused(rule: str) -> None:
    with pytest.raises(PackageError):
        Rules.parse(rule)


def test_files_are_taken_that_no_rule_shuts_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "Chart.yaml": "c",
            ".helmignore": "# tests\nci/\n*.bak\n",
            "ci/values.yaml": "x",
            "a.bak": "x",
            "templates/a.yaml": "\ufefft",
            "templates/.hidden": "x",
        },
    )

    assert directory.load(tmp_path) == {
        ".helmignore": b"# tests\nci/\n*.bak\n",
        "Chart.yaml": b"c",
        "templates/a.yaml": b"t",
    }


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    chart = write(tmp_path / "chart", {"Chart.yaml": "c"})
    (chart / "values.yaml").symlink_to(tmp_path / "secret")
    (chart / "up").symlink_to(tmp_path)

    assert directory.load(chart) == {"Chart.yaml": b"c"}


def test_large_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(limits.FILE_BYTES + 1)

    with pytest.raises(PackageError, match="'large' is larger than 5 MiB"):
        directory.load(tmp_path)


@pytest.mark.parametrize("path", ["..", "a/../../b", "up/x", "x\0y", "/../.."])
def test_path_that_leads_out_is_nowhere(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "up").symlink_to(tmp_path)

    assert directory.inside(root, path) is None


@pytest.mark.parametrize("path", ["./charts/app", "/charts/app", "charts/x/../app/"])
def test_path_is_meant_from_the_root(tmp_path: Path, path: str) -> None:
    assert directory.inside(tmp_path, path) == tmp_path / "charts/app"
