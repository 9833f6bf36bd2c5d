"""Patterns over tags are RE2, wherever they are read."""

import pytest

from toolkit.remote.oci import tagfilter


def test_a_pattern_is_found_anywhere_unless_it_is_anchored() -> None:
    assert tagfilter.compiled("rc").search("1.0.0-rc.1")
    assert not tagfilter.compiled("^rc").search("1.0.0-rc.1")


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "a{2000}", "[z-a]", "x" * 5000])
def test_what_re2_does_not_know_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|expression"):
        tagfilter.compiled(pattern)


def test_a_pattern_that_takes_long_to_compile_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        tagfilter.compiled(r"(\pL|\pN){900}")
