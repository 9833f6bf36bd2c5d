"""What a server that a tenant chose says of an error."""

import msgspec
import pytest

from toolkit.kube import errors, informer, transport


@pytest.mark.parametrize("foreign", [True, False])
def test_an_answer_that_is_too_large_is_no_status(foreign: bool) -> None:  # noqa: FBT001
    large = b'{"kind": "Status", "a": [' + b"[]," * errors.LONGEST_STATUS + b"[]]}"

    assert transport._status(large, foreign=foreign).get("kind") is None
    assert "not a status" in str(informer._reported(msgspec.Raw(large)))


def test_a_status_is_read() -> None:
    small = b'{"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}'

    assert transport._status(small, foreign=True)["message"] == "too old"
    assert isinstance(informer._reported(msgspec.Raw(small)), errors.GoneError)
