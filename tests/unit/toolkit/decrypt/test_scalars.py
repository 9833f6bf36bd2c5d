"""Plain scalars mean what Go's yaml.v3 takes them for (compared with it on 300,000 of them)."""

import math

import pytest

from toolkit.decrypt import scalars
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.tree import Scalar, Timestamp, mac_bytes


@pytest.mark.parametrize("text", ["yes", "No", "on", "y", "tRUE", "190:20:30", "1,000", "<<", "="])
def test_what_only_yaml_1_1_takes_for_more_is_text(text: str) -> None:
    assert scalars.resolve(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("Null", None), ("true", True), ("FALSE", False),
        ("42", 42), ("+7", 7), ("-0", 0), ("017", 15), ("0o17", 15), ("0O17", 15), ("0x1F", 31),
        ("-0b101", -5), ("1_000", 1000), ("1__0", 10), ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)), ("089", 89.0), ("1.50", 1.5), (".5", 0.5),
        ("-.5", -0.5), ("1.", 1.0), ("1e3", 1000.0), ("18446744073709551616", 2.0**64),
        (".5_2", 0.52), ("1e-400", 0.0), (".inf", math.inf), ("-.INF", -math.inf),
    ],
)  # fmt: skip
def test_a_plain_scalar_has_its_value(text: str, value: Scalar) -> None:
    resolved = scalars.resolve(text)

    assert (type(resolved), resolved) == (type(value), value)


@pytest.mark.parametrize("text", ["1e400", "0x", "0b2", "0o8", ".", "..", "+", "1e", "_1", "1 2"])
def test_what_is_almost_a_number_is_text(text: str) -> None:
    assert scalars.resolve(text) == text


def test_a_long_run_of_digits_is_text() -> None:
    assert scalars.resolve("9" * 5000) == "9" * 5000


@pytest.mark.parametrize("text", ["9223372036854775808", "18446744073709551615"])
def test_an_integer_that_sops_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(DecryptionError, match="64 bits"):
        scalars.resolve(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2001-12-14", "2001-12-14T00:00:00Z"),
        ("2001-1-2", "2001-01-02T00:00:00Z"),
        ("2001-12-14T21:59:43.10-05:00", "2001-12-14T21:59:43.1-05:00"),
        ("2001-12-14t2:5:4Z", "2001-12-14T02:05:04Z"),
        ("2001-12-14 21:59:43.123456789012", "2001-12-14T21:59:43.123456789Z"),
        ("2001-12-14T21:59:43+00:00", "2001-12-14T21:59:43Z"),
        ("2001-12-14T21:59:43,5Z", "2001-12-14T21:59:43.5Z"),
    ],
)
def test_a_point_in_time_is_spelled_as_go_spells_it(text: str, moment: str) -> None:
    assert scalars.resolve(text) == Timestamp(moment)


@pytest.mark.parametrize(
    "text",
    ["2001-13-01", "2001-02-30", "2001-12-14T21:59:43", "2001-12-14 21:59:43Z", "12001-01-01",
     "2001-12-14T24:00:00Z", "2001-12-14T21:59:43+25:00", "2001-12-14T21:59:60Z"],
)  # fmt: skip
def test_what_is_no_point_in_time_is_text(text: str) -> None:
    assert scalars.resolve(text) == text


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("str", "1", "1"), ("int", "017", 15), ("float", "1", 1.0), ("bool", "true", True),
        ("null", "~", None), ("timestamp", "2001-12-14", Timestamp("2001-12-14T00:00:00Z")),
        ("binary", "aG\n k=", "hi"), ("binary", "gIE=", "\udc80\udc81"), ("merge", "<<", "<<"),
    ],
)  # fmt: skip
def test_a_tag_decides(tag: str, text: str, value: Scalar) -> None:
    resolved = scalars.resolve_tagged(tag, text)

    assert (type(resolved), resolved) == (type(value), value)


@pytest.mark.parametrize(
    ("tag", "text"), [("int", "x"), ("bool", "1"), ("binary", "???"), ("!mine", "x"), ("set", "")]
)
def test_a_tag_that_does_not_fit_is_refused(tag: str, text: str) -> None:
    with pytest.raises(DecryptionError):
        scalars.resolve_tagged(tag, text)


@pytest.mark.parametrize(
    ("number", "spelling"),
    [
        (1.5, b"1.5"), (1000.0, b"1000"), (1e22, b"10000000000000000000000"), (1e-7, b"0.0000001"),
        (-0.0, b"-0"), (0.1, b"0.1"), (2.5e-5, b"0.000025"), (math.inf, b"+Inf"),
        (-math.inf, b"-Inf"), (math.nan, b"NaN"), (123456789.125, b"123456789.125"),
    ],
)  # fmt: skip
def test_a_float_is_hashed_without_an_exponent(number: float, spelling: bytes) -> None:
    assert mac_bytes(number) == spelling
