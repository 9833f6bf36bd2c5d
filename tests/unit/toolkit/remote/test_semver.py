"""Versions and ranges, as Masterminds/semver reads them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.remote import semver
from toolkit.remote.semver import Range, Version

numbers = st.integers(0, 3)
versions = st.builds(
    Version, numbers, numbers, numbers, st.sampled_from(["", "0", "alpha", "alpha.1", "rc.2"])
)

# Each line: a range, versions in it, versions outside it.
RANGES = [
    ("1.2.3", "1.2.3 1.2.3+build", "1.2.4 1.2.3-rc.1"),
    ("=1.2", "1.2.0 1.2.9", "1.3.0"),
    ("!=1.2.3", "1.2.4", "1.2.3"),
    ("!=1.x", "0.1.0 2.0.0", "1.0.0 1.9.9"),
    (">1.2.3", "1.2.4 2.0.0", "1.2.3 1.2.4-rc.1"),
    (">1", "2.0.0", "1.9.9"),
    (">1.1", "1.2.0", "1.1.9"),
    (">=1.2", "1.2.0 3.0.0", "1.1.9"),
    ("=>1.2", "1.2.0 3.0.0", "1.1.9"),
    ("<2", "1.9.9", "2.0.0 2.0.0-rc.1"),
    ("<=2", "2.9.9", "3.0.0"),
    ("=<2.1", "2.1.9", "2.2.0"),
    ("~1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2"),
    ("~>1.2", "1.2.0 1.2.9", "1.3.0"),
    ("~1", "1.0.0 1.9.9", "2.0.0"),
    ("^1.2.3", "1.2.3 1.9.9", "2.0.0 1.2.2"),
    ("^0.2.3", "0.2.3 0.2.9", "0.3.0"),
    ("^0.0.3", "0.0.3", "0.0.4"),
    ("^0.0", "0.0.9", "0.1.0"),
    ("^0", "0.9.9", "1.0.0"),
    ("*", "0.0.1 9.9.9", "1.0.0-rc.1"),
    ("1.x", "1.0.0 1.9.9", "2.0.0"),
    ("1.2.*", "1.2.9", "1.3.0"),
    ("1.2 - 1.4", "1.2.0 1.4.9", "1.1.9 1.5.0"),
    (">=1.2, <2", "1.9.9", "2.0.0"),
    (">=1.2 <2", "1.9.9", "2.0.0"),
    (">= 1.2 < 2 || 3.x", "1.2.0 3.1.0", "2.0.0"),
    (">=1.2.3-0", "1.2.3-rc.1 1.3.0-alpha", "1.2.2"),
    (">1.0.0-alpha <2", "1.0.0-beta 1.5.0-rc.1", "1.0.0-alpha"),
    ("^1.2.3-beta", "1.2.3-beta.1 1.3.0", "2.0.0"),
]


@pytest.mark.parametrize(("text", "inside", "outside"), RANGES)
def test_range_holds_what_masterminds_says(text: str, inside: str, outside: str) -> None:
    within = Range.parse(text)

    assert [v for v in inside.split() if Version.parse(v) not in within] == []
    assert [v for v in outside.split() if Version.parse(v) in within] == []


@pytest.mark.parametrize(
    "text",
    ["", "  ", ",", "a", "1.2.3.4", ">=", "1 2 ||", ">=1,", "1.2.3-01", "1 -2", "x" * 300],
)
def test_broken_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="range"):
        Range.parse(text)


@pytest.mark.parametrize(
    "text",
    ["1.2", "1", "v1", "1.2.3.4", "01.2.3", "1.2.3-01", "release-1.2.3", "V1.2.3", "1.2.3\n"],
)
def test_tag_that_is_no_full_version_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="is not a semantic version"):
        Version.parse(text)


def test_versions_are_ordered_as_semver_org_says() -> None:
    # https://semver.org, item 11
    text = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11"
    ordered = [Version.parse(v) for v in [*text.split(), "1.0.0-rc.1", "1.0.0"]]

    assert all(low < high for low, high in pairwise(ordered))


def test_highest_tag_in_the_range_is_chosen() -> None:
    tags = ["v1.2.0", "v1.10.0", "v2.0.0", "v1.11.0-rc.1", "latest", "v1.9"]

    assert semver.highest(tags, Range.parse("^1")) == "v1.10.0"


def test_no_tag_in_the_range_is_none() -> None:
    assert semver.highest(["v1.0.0", "junk"], Range.parse(">=2")) is None


def test_order_of_the_tags_does_not_matter() -> None:
    tags = ["1.0.0+a", "1.0.0+b", "v1.0.0"]

    found = {semver.highest(order, Range.parse("*")) for order in (tags, tags[::-1])}

    assert len(found) == 1


@given(bound=versions, version=versions)
def test_exactly_one_of_less_equal_and_more_holds(bound: Version, version: Version) -> None:
    found = [version in Range.parse(f"{operator}{written(bound)}") for operator in ("<", "=", ">")]
    named = not version.prerelease or bool(bound.prerelease)

    assert found.count(True) == (1 if named else 0)


@given(one=versions, other=versions)
def test_order_is_that_of_the_numbers_and_then_of_the_prereleases(
    one: Version, other: Version
) -> None:
    # https://semver.org, item 11: these in their order, and a release after all of them.
    ranks = {"0": 0, "alpha": 1, "alpha.1": 2, "rc.2": 3, "": 4}
    first, second = (
        (each.major, each.minor, each.patch, ranks[each.prerelease]) for each in (one, other)
    )

    assert (one < other, one == other) == (first < second, first == second)


@given(text=st.text(alphabet="0123456789.xX*<>=!~^|, -+va", max_size=40), version=versions)
def test_any_text_is_a_value_error_or_a_range_that_holds_what_a_part_of_it_holds(
    text: str, version: Version
) -> None:
    try:
        within = Range.parse(text)
    except ValueError:
        return

    assert (version in within) == any(version in Range.parse(one) for one in text.split("||"))
    assert version in Range.parse(f"{text} || {written(version)}")


def written(version: Version) -> str:
    text = f"{version.major}.{version.minor}.{version.patch}"
    return f"{text}-{version.prerelease}" if version.prerelease else text
