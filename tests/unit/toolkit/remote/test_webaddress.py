"""URLs are read as everybody else reads them, or not at all."""

import pytest

from toolkit.remote import webaddress


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("https://example.com/a:+1", 443),
        ("https://example.com:8443/", 8443),
        ("https://[::1]:80/", 80),
        ("https://[::1]/", 443),
        ("/a:b", None),
    ],
)
def test_a_port_is_a_number(text: str, port: int | None) -> None:
    assert webaddress.read(text).port == port


@pytest.mark.parametrize("port", ["+1", "8_0", " 80", "\u0663", "-1", "99999"])
def test_what_only_one_program_takes_for_a_port_is_refused(port: str) -> None:
    with pytest.raises(ValueError, match=r"port|Port"):
        webaddress.read(f"https://example.com:{port}/", encoded=True)
