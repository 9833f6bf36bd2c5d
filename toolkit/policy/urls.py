"""Match URLs against patterns. Pure.

A URL is normalized first. A URL that two programs may parse differently matches no pattern, because
the compared URL must be the one to which a client connects.
"""

import functools
import re
from typing import Any, Final
from urllib.parse import urlsplit

import re2

_STRICT: Final = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9._~:/@%+=,!$&'()*;\[\]-]+", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443, "ssh": 22, "oci": 443, "oci+http": 80}
_LONGEST: Final = 4096
"""Characters; every pattern of every policy looks at all of them."""
_DOTS: Final = re.compile(r"(^|/)(\.|%2e){1,2}(/|$)", re.IGNORECASE)
_HIDDEN: Final = re.compile(r"%(2f|5c|00)", re.IGNORECASE)


class UnclearURLError(ValueError):
    """A URL that cannot be compared; the message tells why."""


def canonical(url: str) -> str:
    """Return the URL with lower-case host, without user, default port and trailing slash.

    Raises:
        UnclearURLError: programs may parse the URL differently.
    """
    if len(url) > _LONGEST:
        raise UnclearURLError(f"it has more than {_LONGEST} characters")
    scheme, separator, rest = url.partition("://")
    url = f"{scheme.lower()}{separator}{rest}"
    if not _STRICT.fullmatch(url):
        raise UnclearURLError(
            "it must have a scheme, and only plain characters, without query and fragment"
        )
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as exc:
        raise UnclearURLError("its host or port is malformed") from exc
    if not host or "@" in (parts.username or "") or "%" in parts.netloc:
        raise UnclearURLError("its host is missing, or has unusual characters")
    if _DOTS.search(parts.path) or _HIDDEN.search(parts.path) or "//" in parts.path.rstrip("/"):
        raise UnclearURLError("its path contains '.', '..', or encoded or empty parts")
    shown = f"[{host}]" if ":" in host else host
    address = shown if port in {None, _PORTS.get(parts.scheme)} else f"{shown}:{port}"
    return f"{parts.scheme}://{address}{parts.path.rstrip('/')}"


def shown(url: str) -> str:
    """Return a canonical URL in quotes for messages; empty if it may contain part of a password.

    This is the case with an ``@`` in it, because the password may contain a slash.
    """
    return f"'{url}'" if url and "@" not in url else ""


def matches(pattern: str, url: str) -> bool:
    """Tell whether a pattern matches a canonical URL: ``*`` stops at a slash, ``**`` does not."""
    return _compiled(pattern.rstrip("/")).fullmatch(url) is not None


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    """Compile for RE2, whose time is linear for every pattern."""
    parts = re.split(r"(\*\*|\*)", pattern)
    wild = {"**": ".*", "*": "[^/]*"}
    return re2.compile("".join(wild.get(part) or re2.escape(part) for part in parts))
