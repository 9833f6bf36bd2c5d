"""Which directories a path pattern matches, and what it captured, as labels of what is made."""

import re

import pytest

from toolkit.artifact.composition import pathpattern
from toolkit.artifact.composition.globs import PatternError
from toolkit.artifact.composition.pathpattern import PathPattern


@pytest.mark.parametrize(
    ("pattern", "directory", "captured"),
    [
        ("@m/apps/{app}", "apps/web", {"app": "web"}),
        ("@m/apps/x-{app}", "apps/x-web", {"app": "web"}),
        ("@m/{a}-{b}", "web-eu-1", {"a": "web-eu", "b": "1"}),
        ("@m/{a}{b}", "web", {"a": "we", "b": "b"}),
        ("@m/x{a}.{b}.{c}y", "x1.2.3.4y", {"a": "1.2", "b": "3", "c": "4"}),
        ("@m/{a}--{b}", "a---b", {"a": "a-", "b": "b"}),
        ("@m/*/{a}", "x/web", {"a": "web"}),
        ("@m/{dir}/**", "x/**", {"dir": "x"}),
        ("@m/a[b", "a[b", {}),
    ],
)
def test_a_directory_is_matched_as_by_flux(
    pattern: str, directory: str, captured: dict[str, str]
) -> None:
    parsed = PathPattern.parse(pattern)

    (found,) = parsed.matches([tuple(directory.split("/"))])

    assert dict(found) == captured


@pytest.mark.parametrize(
    ("pattern", "directory"),
    [
        ("@m/", "x"),
        ("@m/{dir}/**", "x/y"),
        ("@m/{dir}/**", "x/y/z"),
        ("@m/a{b}a", "a"),
        ("@m/a{b}a", "aa"),
        ("@m/{a}-{b}", "-b"),
        ("@m/{a}-{b}", "a-"),
        ("@m/{a}{b}", "a"),
        ("@m/{a}-{b}-{c}", "a-b"),
    ],
)
def test_a_directory_is_not_matched_as_by_flux(pattern: str, directory: str) -> None:
    assert not list(PathPattern.parse(pattern).matches([tuple(directory.split("/"))]))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("@m/", "names no directory below the root"),
        ("@m/{dir}/**", r"'\*\*' is not a wildcard here"),
        ("@m/a*/{dir}", r"'a\*' is not a wildcard here"),
        ("@m/{dir}/*", "^$"),
        ("@m/{a}-{b}", "^$"),
    ],
)
def test_a_pattern_that_hardly_matches_says_why(pattern: str, why: str) -> None:
    assert re.search(why, PathPattern.parse(pattern).idle)


@pytest.mark.parametrize("pattern", ["m/{dir}", "{dir}", ""])
def test_a_pattern_without_a_source_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="it is not of the form '@alias/directory'"):
        PathPattern.parse(pattern)


def test_what_was_captured_becomes_labels_in_lower_case() -> None:
    assert pathpattern.labels({"app": "Web", "env": "prod-1"}) == {"app": "web", "env": "prod-1"}


@pytest.mark.parametrize("value", ["a b", "-a", "a/b", "x" * 64, "\x1b[31m"])
def test_what_cannot_be_a_label_is_refused(value: str) -> None:
    with pytest.raises(PatternError, match=r"which '\{app\}' captured, cannot be a label"):
        pathpattern.labels({"app": value})
