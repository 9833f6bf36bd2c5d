"""Globs mean what they mean to users, and take no longer for being hostile."""

import pytest

from toolkit.artifact.composition.globs import Glob, PatternError, Rules


@pytest.mark.parametrize(
    ("pattern", "base", "matching", "others"),
    [
        ("*.yaml", (), ["a.yaml"], ["a/b.yaml", "a.yml"]),
        ("**", (), ["a", "a/b", "a/b/c"], []),
        ("a/**", ("a",), ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("a/**/c", ("a",), ["a/c", "a/b/c", "a/b/b/c"], ["c", "a/b/c/d"]),
        ("**/c", (), ["c", "a/c", "a/b/c"], ["cc"]),
        ("a/*/c?", ("a",), ["a/b/c1"], ["a/c1", "a/b/b/c1", "a/b/c"]),
        ("a/[b-d]x", ("a",), ["a/bx", "a/dx"], ["a/ex", "a/x"]),
        ("a/{b,c/d}/*", ("a",), ["a/b/x", "a/c/d/x"], ["a/c/x", "a/d/x"]),
        ("{a,b}.{yml,yaml}", (), ["a.yml", "b.yaml"], ["c.yml"]),
        ("!a*", (), ["!ab"], ["ab"]),
        ("#*", (), ["#x"], ["x"]),
        (r"a\*b", (), ["a*b"], ["axb"]),
    ],
)
def test_a_glob_matches_files(
    pattern: str, base: tuple[str, ...], matching: list[str], others: list[str]
) -> None:
    found = Glob.parse(pattern)

    assert found is not None
    assert found.base == base
    assert [name for name in matching + others if found.matches(name.split("/"))] == matching


@pytest.mark.parametrize("pattern", ["{,a}", "{}"])
def test_a_glob_with_an_empty_alternative_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="it is empty"):
        Glob.parse(pattern)


@pytest.mark.parametrize("path", ["", "a", "a/b.yaml", "./a//b/", "a b"])
def test_a_path_is_no_glob(path: str) -> None:
    assert Glob.parse(path) is None


@pytest.mark.parametrize(
    ("pattern", "excluded", "kept"),
    [
        ("*.md", ["a.md", "x/a.md"], ["a.mdx"]),
        ("/a", ["a", "a/b/c"], ["b/a"]),
        ("a/b", ["a/b", "a/b/c"], ["x/a/b"]),
        ("**/tests/**", ["tests/a", "x/tests/a/b"], ["tests", "x/tests"]),
        ("tests/", ["x/tests/a"], ["x/tests"]),
        ("**/.*", [".hidden", "a/.hidden/b"], ["a.b"]),
    ],
)
def test_what_a_rule_excludes(pattern: str, excluded: list[str], kept: list[str]) -> None:
    rules = Rules.parse([pattern])

    names = excluded + kept
    assert [name for name in names if rules.exclude(name.split("/"), base=0)] == excluded


@pytest.mark.timeout(10)
def test_a_pattern_made_to_explode_is_matched_at_once() -> None:
    hostile = Glob.parse("a*" * 100 + "b/" + "**/x/" * 60 + "*" + "[!c]*" * 40 + "z")
    name = ["a" * 250 + "b", *["x"] * 60, "y" * 250]

    assert hostile is not None
    assert not any(hostile.matches(name) for _ in range(200))
