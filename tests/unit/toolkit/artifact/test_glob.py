"""Patterns match as Git matches them, in time that no pattern can stretch."""

import subprocess
from pathlib import Path

import pytest

from toolkit.artifact import glob
from toolkit.artifact.glob import PatternError


def matches(line: str, path: str) -> bool:
    """Tell whether ``path``, or a directory above it, matches; a trailing slash is a directory."""
    pattern = glob.compile_line(line)
    assert pattern is not None
    parts = path.rstrip("/").split("/")
    return any(
        pattern.matches(parts[:depth], is_directory=depth < len(parts) or path.endswith("/"))
        for depth in range(1, len(parts) + 1)
    )


CASES = [
    # pattern, paths that match, paths that do not
    ("a", ["a", "x/a", "a/x", "x/a/y"], ["ab", "x/ab"]),
    ("/a", ["a", "a/x"], ["x/a"]),
    ("a/", ["a/", "a/x", "x/a/y"], ["a", "x/a"]),
    ("a/b", ["a/b", "a/b/c"], ["x/a/b", "b"]),
    ("*.md", ["a.md", "x/.md", "x.md/y"], ["a.mdx", "md"]),
    ("/*", ["a", "a/b"], []),
    ("a/*", ["a/b", "a/b/c"], ["a", "b/a/c"]),
    ("**/a", ["a", "x/a", "x/y/a"], ["xa"]),
    ("a/**", ["a/b", "a/b/c"], ["a", "x/a/b"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b/z"], ["a", "b", "x/a/b"]),
    ("**", ["a", "a/b"], []),
    ("a**b", ["ab", "axxb", "x/axb"], ["a/b"]),
    ("a?c", ["abc", "x/a.c"], ["ac", "abbc"]),
    ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
    ("[!a-c]x", ["dx", "]x"], ["ax", "x"]),
    ("[^a]x", ["bx"], ["ax"]),
    ("[]-]x", ["]x", "-x"], ["ax"]),
    ("[*]", ["*"], ["a"]),
    ("\\#a", ["#a"], ["a"]),
    ("\\!a", ["!a"], ["a"]),
    ("a\\*", ["a*"], ["ab"]),
    ("a\\ ", ["a "], ["a"]),
    ("a  ", ["a"], ["a  "]),
    ("*a*b*", ["ab", "xaxbx", "aab"], ["ba", "b"]),
    ("a.b", ["a.b"], ["axb"]),
    ("x*\n", ["x", "xy"], ["yx"]),
]


@pytest.mark.parametrize(("line", "inside", "outside"), CASES, ids=[case[0] for case in CASES])
def test_a_pattern_matches_what_it_should(line: str, inside: list[str], outside: list[str]) -> None:
    assert [path for path in inside if not matches(line, path)] == []
    assert [path for path in outside if matches(line, path)] == []


@pytest.mark.parametrize(("line", "inside", "outside"), CASES, ids=[case[0] for case in CASES])
def test_git_agrees(line: str, inside: list[str], outside: list[str], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".git" / "info" / "exclude").write_text(f"{line}\n")

    found = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join([*inside, *outside]).encode() + b"\0",
        capture_output=True,
        check=False,
    ).stdout

    assert found.decode().split("\0")[:-1] == inside


@pytest.mark.parametrize("line", ["", "   ", "# comment", "\n", "/", "!", "//"])
def test_a_line_without_a_pattern_is_none(line: str) -> None:
    assert glob.compile_line(line) is None


def test_an_exclamation_mark_negates() -> None:
    pattern = glob.compile_line("!a/")

    assert pattern is not None
    assert pattern.negated
    assert pattern.directories_only


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("[a", "not closed"), ("a\\", "backslash"), ("[z-a]", "empty"), ("a" * 1001, "longer")],
)
def test_a_pattern_that_means_nothing_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(PatternError, match=complaint):
        glob.compile_line(line)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("*a" * 100 + "*b", "a" * 250),
        ("**/a/" * 100 + "b", "/".join(["a"] * 60)),
        ("*?" * 100 + "b", "a" * 250),
    ],
)
def test_no_pattern_takes_long(line: str, path: str) -> None:
    assert not any(matches(line, path) for _ in range(200))
