"""Names of objects and of namespaces."""

import pytest

from toolkit import dnsnames


@pytest.mark.parametrize(
    ("text", "label", "subdomain"),
    [
        ("a", True, True),
        ("a-1", True, True),
        ("a.b", False, True),
        ("a" * 63, True, True),
        ("a" * 64, False, True),
        ("a" * 253, False, True),
        ("a" * 254, False, False),
        ("", False, False),
        ("-a", False, False),
        ("a-", False, False),
        ("a..b", False, False),
        ("A", False, False),
        ("a\n", False, False),
    ],
)
def test_labels_and_subdomains(text: str, *, label: bool, subdomain: bool) -> None:
    assert dnsnames.is_label(text) is label
    assert dnsnames.is_subdomain(text) is subdomain
