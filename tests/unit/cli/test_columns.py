"""Columns of ``get``."""

import pytest

from cli import columns


@pytest.mark.parametrize(
    ("message", "repeated"),
    [
        ("Applied revision: main@sha1:01234567", True),
        ("stored artifact for revision 'main@sha1:01234567'", True),
        ("Fetched revision main@sha1:01234567", True),
        ("nothing of it", False),
        ("main@sha1:01234567 differs", False),
    ],
)
def test_a_message_repeats_the_revision_that_it_ends_with(message: str, *, repeated: bool) -> None:
    assert columns.repeats(message, "main@sha1:01234567") is repeated
    assert not columns.repeats(message, "")
