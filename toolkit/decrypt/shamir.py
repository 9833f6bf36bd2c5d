"""Shamir's secret sharing over GF(2**8), as SOPS uses it for key groups.

A share is the value of one polynomial per byte of the secret, followed by the point at which it
was taken; the secret is the value at zero. The field is that of AES (x**8 + x**4 + x**3 + x + 1).
"""

from collections.abc import Sequence

from toolkit.decrypt.errors import DecryptionError


def combine(shares: Sequence[bytes]) -> bytes:
    """Return the secret behind ``shares``; too few of them give a wrong one.

    Raises:
        DecryptionError: the shares differ in length, or two are from the same point.
    """
    points = [share[-1] for share in shares if share]
    lengths = {len(share) for share in shares}
    if len(points) < 2 or len(set(points)) != len(shares) or len(lengths) != 1 or 0 in points:
        raise DecryptionError("the shares of the key groups do not match")
    weights = [_weight(point, points) for point in points]
    secret = bytearray(lengths.pop() - 1)
    for share, weight in zip(shares, weights, strict=True):
        for index in range(len(secret)):
            secret[index] ^= _multiply(share[index], weight)
    return bytes(secret)


def _weight(point: int, points: Sequence[int]) -> int:
    """Return Lagrange's basis polynomial of ``point`` at zero."""
    weight = 1
    for other in points:
        if other != point:
            weight = _multiply(weight, _multiply(other, _inverse(point ^ other)))
    return weight


def _multiply(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def _inverse(a: int) -> int:
    """Return a**254: the group of the field has 255 elements."""
    result = 1
    for _ in range(7):
        a = _multiply(a, a)
        result = _multiply(result, a)
    return result
