"""What a kernel lacks is logged, or keeps the process from starting."""

import pytest

from toolkit.errors import StalledError
from toolkit.native.sandbox import protection

LACKING = ("Landlock, so that workers can open every file",)


def test_a_process_starts_without_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    protection.require(LACKING, required=False)

    (record,) = caplog.records
    assert record.message == "workers are not fully confined"
    assert vars(record)["missing"] == LACKING[0]


def test_a_process_that_requires_it_does_not_start() -> None:
    with pytest.raises(StalledError, match=r"does not offer Landlock.*: use nodes with Linux"):
        protection.require(LACKING, required=True)


def test_nothing_is_said_where_nothing_lacks(caplog: pytest.LogCaptureFixture) -> None:
    protection.require((), required=True)

    assert not caplog.records
