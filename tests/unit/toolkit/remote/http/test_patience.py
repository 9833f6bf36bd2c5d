"""What ``Retry-After`` asks for, and for how long a server is left alone."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.remote.http import patience
from toolkit.remote.http.patience import LONGEST, Pauses

NOW = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("999999", LONGEST),
        ("9" * 400, None),
        ("-1", None),
        ("1.5", None),
        ("\u0663", None),
        ("soon", None),
        ("Sat, 21 Nov 2026 08:01:00 GMT", 60.0),
        ("Sat, 21 Nov 2026 07:00:00 GMT", 0.0),
        ("Sat, 21 Nov 2126 07:00:00 GMT", LONGEST),
        ("Sat, 21 Nov 2026 08:01:00 -0000", 60.0),
    ],
)
def test_both_forms_are_read(value: str, seconds: float | None) -> None:
    assert patience.retry_after(value, NOW) == seconds


_IN_A_MINUTE = str(int(NOW.timestamp()) + 60)


@pytest.mark.parametrize(
    ("remaining", "reset", "after", "seconds"),
    [
        ("0", _IN_A_MINUTE, "", 60.0),
        ("0", _IN_A_MINUTE, "5", 5.0),  # the server's own word comes first
        ("0", "1", "", 0.0),
        ("0", "99999999999", "", LONGEST),
        ("7", _IN_A_MINUTE, "", None),  # refused for another reason
        ("0", "soon", "", None),
        ("0", "9" * 400, "", None),
    ],
)
def test_a_limit_that_is_used_up_ends_at_its_moment(
    remaining: str, reset: str, after: str, seconds: float | None
) -> None:
    headers = {
        "X-RateLimit-Remaining": remaining,
        "X-RateLimit-Reset": reset,
        "Retry-After": after,
    }

    assert patience.asked(headers, NOW) == seconds


@given(value=st.text(max_size=60))
def test_any_header_is_read_or_passed_over(value: str) -> None:
    seconds = patience.retry_after(value, NOW)

    assert seconds is None or 0 <= seconds <= LONGEST


def test_pause_ends() -> None:
    now = [100.0]
    pauses = Pauses(lambda: now[0])
    pauses.remember("registry", 30)

    assert pauses.left("registry") == 30
    assert pauses.left("other") == 0
    now[0] = 130.0
    assert pauses.left("registry") == 0
