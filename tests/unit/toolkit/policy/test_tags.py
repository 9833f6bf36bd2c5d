"""Which tag is chosen: as Flux's image-reflector-controller chooses (``internal/policy``)."""

import random
from typing import Any

import msgspec
import pytest

from crds.image import ImagePolicyChoice, TagFilter
from toolkit import regexp
from toolkit.errors import StalledError
from toolkit.policy import tags
from toolkit.policy.tags import NoTagError


def choose(policy: dict[str, Any], *found: str, **given: str) -> str:
    choice = msgspec.convert(policy, ImagePolicyChoice)
    return tags.choose(choice, TagFilter(**given) if given else None, found)


SEMVER = {"semver": {"range": ">=1.0.0"}}
TIMES = {"numerical": {"order": "asc"}}


@pytest.mark.parametrize(
    ("policy", "found", "chosen"),
    [
        (SEMVER, ("1.0.0", "1.10.0", "1.9.0", "0.9.0", "latest"), "1.10.0"),
        ({"semver": {"range": "1.0.x"}}, ("v1.0.1", "1.0.0", "1.1.0"), "v1.0.1"),
        ({"semver": {"range": ">=1.0.0-0"}}, ("1.0.0", "1.1.0-rc.1"), "1.1.0-rc.1"),
        (SEMVER, ("1.0.0", "1.1.0-rc.1"), "1.0.0"),
        ({"semver": {"range": "~1.2"}}, ("1.2.9", "1.3.0", "1.2.10"), "1.2.10"),
        ({"alphabetical": {}}, ("a", "c", "b"), "c"),
        ({"alphabetical": {"order": "desc"}}, ("b", "a", "c"), "a"),
        (TIMES, ("9", "10", "-1", "2.5"), "10"),
        ({"numerical": {"order": "desc"}}, ("9", "10", "-1", "2.5"), "-1"),
        # larger than a float tells apart
        (TIMES, ("20260203040506789", "20260203040506790"), "20260203040506790"),
    ],
)
def test_a_policy_chooses_whatever_the_order_of_the_list(
    policy: dict[str, Any], found: tuple[str, ...], chosen: str
) -> None:
    shuffled = list(found)
    random.Random(1).shuffle(shuffled)  # noqa: S311

    assert choose(policy, *found) == choose(policy, *shuffled) == chosen


@pytest.mark.parametrize(
    ("pattern", "extract", "chosen"),
    [
        (r"^main-[a-f0-9]+-(?P<ts>[0-9]+)$", "$ts", "main-a1-20"),
        (r"^main-[a-f0-9]+-([0-9]+)$", "$1", "main-a1-20"),
        (r"-(?P<ts>[0-9]+)$", "${ts}0", "dev-c3-30"),
    ],
)
def test_tags_are_compared_by_what_is_extracted(pattern: str, extract: str, chosen: str) -> None:
    found = ("main-a1-20", "main-b2-3", "dev-c3-30", "latest")

    assert choose(TIMES, *found, pattern=pattern, extract=extract) == chosen


def test_a_filter_without_extract_compares_whole_tags() -> None:
    assert choose({"alphabetical": {}}, "a-1", "b-2", "c", pattern="-") == "b-2"


def test_of_tags_that_compare_as_equal_one_is_taken_always() -> None:
    found = ["v1-a", "v1-b", "v1-c"]
    given = {"pattern": "^(v1)-", "extract": "$1"}

    assert {choose({"alphabetical": {}}, *found, **given) for _ in range(3)} == {"v1-c"}
    assert choose({"alphabetical": {}}, *reversed(found), **given) == "v1-c"


@pytest.mark.parametrize(
    ("policy", "found"), [(SEMVER, ("latest",)), (SEMVER, ()), (TIMES, ("1", "latest"))]
)
def test_where_no_tag_can_be_chosen_it_is_waited_for_one(
    policy: dict[str, Any], found: tuple[str, ...]
) -> None:
    with pytest.raises(NoTagError):
        choose(policy, *found)


@pytest.mark.parametrize("policy", [{}, {"semver": {"range": "newest"}}])
def test_what_is_no_policy_stalls(policy: dict[str, Any]) -> None:
    with pytest.raises(StalledError) as refused:
        choose(policy, "1.0.0")

    assert refused.value.reason == "InvalidPolicy"


def test_what_is_excluded_is_left_out_and_the_rest_is_sorted() -> None:
    found = ("1.0.0", "sha256-ab.sig", "1.1.0-dev", "1.1.0")

    assert tags.excluded([r"^.*\.sig$", "-dev"], found) == ["1.1.0", "1.0.0"]


def test_a_pattern_on_which_others_backtrack_ends() -> None:
    bomb = f"^({'a?' * 20}){'a' * 20}$|^(a+)+$"
    found = [f"{'a' * 20}b{number}" for number in range(50_000)]

    assert len(tags.excluded([bomb], found)) == len(found)


def test_a_group_with_a_number_of_thousands_of_digits_is_missing() -> None:
    number = "9" * 40_000

    assert tags.missing_groups("^(a)", f"${{{number}}}") == [number]
    with pytest.raises(NoTagError):
        choose(TIMES, "ab", pattern="^(a)", extract=f"${number}")


def test_numbers_of_thousands_of_digits_are_compared() -> None:
    found = ("1", "3", "2")

    assert choose(TIMES, *found, pattern="^([0-9])$", extract="$1" * 5_000) == "3"


def test_groups_that_a_template_lacks_are_found() -> None:
    assert tags.missing_groups(r"(?P<a>x)(y)", "$a ${2} $b $3 $$c") == ["b", "3"]


def test_more_patterns_than_anybody_needs_are_refused_before_they_are_compiled() -> None:
    patterns = [f"(\\pL{{3}}){{{number}}}" for number in range(1, regexp.MOST + 2)]

    with pytest.raises(StalledError, match=r"spec\.exclusionList: more than 256 patterns"):
        tags.excluded(patterns, ["1"])
