"""What a registry demands, as it says so in a header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.remote.oci import tokens
from toolkit.remote.oci.tokens import Challenge

BEARER = (
    'Bearer realm="https://auth.example.com/token",service="registry",scope="repository:a:pull"'
)


@pytest.mark.parametrize(
    ("value", "challenge"),
    [
        (BEARER, Challenge("https://auth.example.com/token", "registry", "repository:a:pull")),
        (BEARER.replace("Bearer", "bearer").replace(",", " , "), None),
        ('Bearer realm="https://a/t"', Challenge("https://a/t")),
        ("Bearer realm=https://a/t,service=s", Challenge("https://a/t", "s")),
        ('Basic realm="registry"', Challenge()),
        ("Basic", Challenge()),
        ("Negotiate abc", None),
        ("Bearer", None),
        ('Bearer service="s"', None),
        ("", None),
        (f'Bearer realm="{"a" * 9000}"', None),
    ],
)
def test_challenge_is_read(value: str, challenge: Challenge | None) -> None:
    found = tokens.parse(value)

    if challenge is None and value.startswith("bearer"):
        assert found == Challenge("https://auth.example.com/token", "registry", "repository:a:pull")
    else:
        assert found == challenge


@given(value=st.text(max_size=300))
def test_any_header_is_read_or_passed_over(value: str) -> None:
    found = tokens.parse(f"Bearer {value}")

    assert found is None or found.realm
