"""Valid keys and values of labels, with upstream's messages.

``apimachinery/pkg/api/validate/content/kube.go`` and ``dns.go``.
"""

import re
from typing import Final

from apiserver import status
from toolkit import dnsnames

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIXED: Final = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    " '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_PREFIX_RULE: Final = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
    " '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex"
    " used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LONGEST: Final = 63
_LONGEST_PREFIX: Final = 253
_INT64: Final = 1 << 63


def check_key(key: str) -> None:
    """Refuse what cannot be a label's key.

    Raises:
        StatusError: 400.
    """
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        wrong = [f"a valid label key {_RULE}{_PREFIXED}"]
    else:
        wrong = [*(_wrong_prefix(prefix) if slash else ()), *_wrong_name(name)]
    if wrong:
        raise status.bad_request(f'<nil>: Invalid value: "{key}": {"; ".join(wrong)}')


def check_value(key: str, value: str, index: int) -> None:
    """Refuse what cannot be a label's value; ``index`` is its place among those of the key.

    Raises:
        StatusError: 400.
    """
    wrong = []
    if len(value) > _LONGEST:
        wrong.append(f"must be no more than {_LONGEST} bytes")
    if value and not _NAME.fullmatch(value):
        wrong.append(_VALUE_RULE)
    if wrong:
        raise status.bad_request(
            f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(wrong)}'
        )


def integer(text: str) -> int | None:
    """Return the 64-bit number in a label's value, or None."""
    if len(text) > 20 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


def _wrong_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    wrong = []
    if len(prefix) > _LONGEST_PREFIX:
        wrong.append(f"prefix part must be no more than {_LONGEST_PREFIX} bytes")
    if not dnsnames.SUBDOMAIN.fullmatch(prefix):
        wrong.append(_PREFIX_RULE)
    return wrong


def _wrong_name(name: str) -> list[str]:
    wrong = []
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name) > _LONGEST:
        wrong.append(f"name part must be no more than {_LONGEST} bytes")
    if not _NAME.fullmatch(name):
        wrong.append(f"name part {_RULE}")
    return wrong
