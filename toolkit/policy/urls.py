"""Match URLs against patterns. Pure.

A URL is normalized first. A URL that two programs may parse differently matches no pattern, because
the compared URL must be the one to which a client connects, and the path must be the one that the
server opens. Servers read paths differently: servlet containers drop ``;parameters`` before they
resolve ``..``, some decode twice, Windows drops dots and spaces at the end of a name. So a path may
only consist of characters to which no server gives a meaning, and encoded text must be valid UTF-8
of letters, digits, spaces and these characters. The dot is never encoded.

With SSH, the user is part of the address: another account of the server may have another home, root
directory or command, and so other content behind the same path. Only ``git``, the usual account, is
left out. A pattern without a user is about no other account.

Where a server chooses the content by the login, the URL does not name it (``_BY_LOGIN``), and can
be compared with nothing.
"""

import functools
import ipaddress
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

import re2

_PORTS: Final = {"http": 80, "https": 443, "ssh": 22, "oci": 443, "oci+http": 80}
_SSH: Final = "ssh"
_USUAL: Final = "git"
"""The account that is meant where an SSH URL names none (``toolkit.remote.git.ssh``)."""
_LONGEST: Final = 4096
"""Characters; every pattern of every policy looks at all of them."""
_FORM: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<user>[A-Za-z0-9._~!$&'()+,;=*-]*)(?::[A-Za-z0-9._~!$&'()+,;=:-]*)?@)?"
    r"(?:(?P<name>[A-Za-z0-9._*-]+)|\[(?P<six>[0-9A-Fa-f:.]+)\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>(?:/.*)?)"
)
_BY_LOGIN: Final = (
    # AWS CodeCommit: each account of AWS has its own repositories behind the same URL. An SSH user
    # is the ID of a key, which belongs to one account. Endpoints of a VPC have the label, too.
    (
        re.compile(r"(?:.*\.)?git-codecommit(?:-fips)?\..*", re.DOTALL),
        (
            "AWS CodeCommit chooses the repository by the account that signs in, so the URL does"
            " not tell which it is; use SSH, with the ID of the key as the user"
        ),
    ),
)
"""Hosts of servers that choose the content by the login, unless an SSH user names the account."""
_LABEL: Final = re.compile(r"[a-z0-9_*](?:[a-z0-9_*-]*[a-z0-9_*])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SEGMENT: Final = re.compile(r"(?:[A-Za-z0-9._~:@+$*-]|%[0-9A-Fa-f]{2})+")
_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_DECODED: Final = re.compile(r"[A-Za-z0-9 _~@+-]*")


class UnclearURLError(ValueError):
    """A URL that cannot be compared; the message tells why."""


def canonical(url: str) -> str:
    """Return the URL with lower-case host, without password, default port and trailing slash.

    The user is left out, too, unless it is one of SSH other than ``git``.

    Raises:
        UnclearURLError: programs may parse the URL differently.
    """
    if "*" in url:
        raise UnclearURLError("it contains '*'")
    return canonical_pattern(url)


def canonical_pattern(pattern: str) -> str:
    """Return a pattern in the form of the URLs that it is compared with.

    Raises:
        UnclearURLError: it can match no URL.
    """
    if len(pattern) > _LONGEST:
        raise UnclearURLError(f"it has more than {_LONGEST} characters")
    found = _FORM.fullmatch(pattern)
    if found is None:
        raise UnclearURLError(
            "it must have a scheme, a plain host and port, and no query and fragment"
        )
    scheme, port = found["scheme"].lower(), int(found["port"] or 0)
    if port > 65535:
        raise UnclearURLError("its port is malformed")
    host = f"[{_address(found['six'])}]" if found["six"] else _host(found["name"].lower())
    address = host if port in {0, _PORTS.get(scheme)} else f"{host}:{port}"
    user = found["user"] if scheme == _SSH and found["user"] not in {None, "", _USUAL} else ""
    for hosts, why in _BY_LOGIN:
        if not user and hosts.fullmatch(host):
            raise UnclearURLError(why)
    address = f"{user}@{address}" if user else address
    segments = found["path"].removesuffix("/").split("/")
    if scheme == _SSH and not user and segments[1:2] and _is_home(segments[1]):
        raise UnclearURLError("its path is in the home directory of the user, but it names no user")
    return f"{scheme}://{address}" + "/".join(["", *map(_segment, segments[1:])])


def shown(url: str) -> str:
    """Return a canonical URL in quotes for messages; empty if it may contain part of a password.

    This is the case with an ``@`` in the path, because the password may contain a slash.
    """
    path = url.partition("://")[2].partition("/")[2]
    return f"'{url}'" if url and "@" not in path else ""


def admits(patterns: Iterable[str], recorded: str) -> bool:
    """Tell whether a pattern matches a recorded URL.

    It was canonical for the version that recorded it, and must still be so.
    """
    try:
        url = canonical(recorded)
    except UnclearURLError:
        return False
    return any(matches(pattern, url) for pattern in patterns)


def matches(pattern: str, url: str) -> bool:
    """Tell whether a pattern matches a canonical URL: ``*`` stops at a slash, ``**`` does not."""
    if _names_user(url) and not _names_user(pattern):
        return False  # A wildcard in the host does not stand for an account.
    return _compiled(pattern.rstrip("/")).fullmatch(url) is not None


def _is_home(segment: str) -> bool:
    """Tell whether a part of a path is a home directory that it does not name."""
    return segment.replace("%7E", "~").replace("%7e", "~") == "~"


def _names_user(url: str) -> bool:
    return "@" in url.partition("://")[2].partition("/")[0]


def _host(name: str) -> str:
    labels = name.split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        raise UnclearURLError("its host is not a name of letters, digits and '-'")
    if _NUMBER.fullmatch(labels[-1]) and "*" not in name:
        # Clients read a name whose last part is a number as an address, in many spellings.
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError as exc:
            raise UnclearURLError("its host is not an address of four numbers") from exc
    return name


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError as exc:
        raise UnclearURLError("its host is not an address") from exc


def _segment(text: str) -> str:
    """Return a part of a path, with encoded bytes in upper case."""
    if text in {"", "."} or ".." in text or text.endswith("."):
        raise UnclearURLError("its path has '.', '..', an empty part, or a part that ends in '.'")
    if not _SEGMENT.fullmatch(text):
        raise UnclearURLError(
            "its path may only contain letters, digits, the characters . _ ~ : @ + $ -, and "
            "encoded spaces and letters"
        )
    upper = _ENCODED.sub(lambda found: _checked(found[0]), text)
    if "::" in text or text.startswith("%20") or text.endswith("%20"):
        raise UnclearURLError("its path has '::', or a part that begins or ends with a space")
    return upper


def _checked(encoded: str) -> str:
    try:
        decoded = bytes.fromhex(encoded.replace("%", "")).decode()
    except UnicodeDecodeError as exc:
        raise UnclearURLError("its path has encoded bytes that are not UTF-8") from exc
    ascii_, letters = (
        "".join(char for char in decoded if char.isascii() is wanted) for wanted in (True, False)
    )
    # A letter that normalization changes could become a character that is not allowed.
    stable = unicodedata.normalize("NFKC", letters) == letters
    if not _DECODED.fullmatch(ascii_) or not stable or (letters and not letters.isalnum()):
        raise UnclearURLError("its path has encoded characters other than spaces and letters")
    return encoded.upper()


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    """Compile for RE2, whose time is linear for every pattern."""
    parts = re.split(r"(\*\*|\*)", pattern)
    wild = {"**": ".*", "*": "[^/]*"}
    return re2.compile("".join(wild.get(part) or re2.escape(part) for part in parts))
