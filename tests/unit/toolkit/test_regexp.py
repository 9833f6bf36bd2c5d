"""Patterns are RE2, wherever they are read."""

import pytest

from toolkit import regexp


def test_a_pattern_is_found_anywhere_unless_it_is_anchored() -> None:
    assert regexp.compiled("rc").search("1.0.0-rc.1")
    assert not regexp.compiled("^rc").search("1.0.0-rc.1")


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "a{2000}", "[z-a]", "x" * 5000])
def test_what_re2_does_not_know_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|expression"):
        regexp.compiled(pattern)


def test_a_pattern_that_takes_long_to_compile_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        regexp.compiled(r"(\pL|\pN){900}")


def test_a_pattern_with_many_groups_is_refused_because_each_search_copies_them() -> None:
    assert regexp.compiled("(a)" * 64).search("a" * 64)
    assert regexp.compiled("(?:a)?" * 600).search("a")

    with pytest.raises(ValueError, match=r"more than 64 groups is not accepted: write '\(\?:…\)'"):
        regexp.compiled("(a?)" * 65)


def test_the_whole_text_has_to_fit_and_what_is_no_pattern_fits_nothing() -> None:
    assert regexp.fits("v[0-9]+", "v12")
    assert not regexp.fits("v[0-9]+", "v12-rc")
    assert not regexp.fits("(", "(")


def test_the_larger_a_pattern_the_less_of_a_text_it_is_searched_for_in() -> None:
    text = "a" * 39_000 + " upgrade failed"

    assert regexp.found("^a+ upgrade", "a" * 9_000 + " upgrade failed")
    # This one takes half a second for the whole text, in which nobody else has a turn.
    assert not regexp.found("(a?){500} upgrade failed", text)
    assert regexp.found("(a?){500} upgrade failed", "a upgrade failed")


def test_only_a_pattern_can_be_found() -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        regexp.found("(", "(")
