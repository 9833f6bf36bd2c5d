"""Authorities and bundles of them: who trusts whom."""

import datetime as dt

import pytest

from certs import authority

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ONE, TWO, THREE = (
    authority.new_authority(name, now=NOW, lifetime=dt.timedelta(days=1)).certificate
    for name in ("one", "two", "three")
)


@pytest.mark.parametrize(
    ("bundle", "other", "shares", "holds"),
    [
        pytest.param(ONE, ONE, True, True, id="the same"),
        pytest.param(ONE + TWO, TWO, True, True, id="one of two"),
        pytest.param(TWO, ONE + TWO, True, False, id="not all"),
        pytest.param(ONE + TWO, TWO + THREE, True, False, id="one in common"),
        pytest.param(ONE, TWO, False, False, id="another"),
        pytest.param(b"", ONE, False, False, id="nothing yet"),
        pytest.param(b"no PEM", ONE, False, False, id="no PEM"),
    ],
)
def test_what_two_bundles_have_in_common(
    bundle: bytes, other: bytes, *, shares: bool, holds: bool
) -> None:
    assert authority.shares(bundle, other) is shares
    assert authority.holds(bundle, other) is holds
