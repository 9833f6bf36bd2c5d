"""Shares made by an independent dealer come together again."""

import itertools
import secrets

import pytest

from toolkit.decrypt import shamir
from toolkit.decrypt.errors import DecryptionError


def double(value: int) -> int:
    return (value << 1) ^ (0x11B if value & 0x80 else 0)


def times(left: int, right: int) -> int:
    product = 0
    for bit in range(8):
        if right >> bit & 1:
            product ^= left
        left = double(left)
    return product


def deal(secret: bytes, parts: int, threshold: int) -> list[bytes]:
    rows = [[byte, *(secrets.randbelow(256) for _ in range(threshold - 1))] for byte in secret]
    shares = []
    for point in range(250, 250 - parts, -1):
        values = []
        for row in rows:
            value = 0
            for coefficient in reversed(row):
                value = times(value, point) ^ coefficient
            values.append(value)
        shares.append(bytes([*values, point]))
    return shares


@pytest.mark.parametrize(("parts", "threshold"), [(2, 2), (3, 2), (5, 3)])
def test_every_sufficient_set_of_shares_gives_the_secret(parts: int, threshold: int) -> None:
    secret = secrets.token_bytes(32)
    shares = deal(secret, parts, threshold)

    for count in range(threshold, parts + 1):
        for chosen in itertools.combinations(shares, count):
            assert shamir.combine(chosen) == secret


def test_too_few_shares_give_something_else() -> None:
    secret = secrets.token_bytes(32)

    assert shamir.combine(deal(secret, 3, 3)[:2]) != secret


@pytest.mark.parametrize(
    "shares",
    [[b"ab\x01"], [b"ab\x01", b"cd\x01"], [b"ab\x01", b"c\x02"], [b"", b"a\x01"], [b"a\0", b"b\1"]],
)
def test_shares_that_do_not_belong_together_are_refused(shares: list[bytes]) -> None:
    with pytest.raises(DecryptionError, match="do not match"):
        shamir.combine(shares)
