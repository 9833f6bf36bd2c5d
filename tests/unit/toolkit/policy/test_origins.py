"""The record of where an artifact came from, which a third party may have written."""

import pytest

from toolkit.policy import origins


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '[{"a":' * 5_000 + "1" + "}]" * 5_000])
def test_a_damaged_record_names_no_origin(text: str) -> None:
    assert origins.read({origins.RECORD: text}) == ()
