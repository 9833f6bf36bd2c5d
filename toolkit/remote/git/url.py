"""Addresses of Git repositories, and which of them are the same place for credentials."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from toolkit.remote.git.errors import GitSpecError

Scheme = Literal["http", "https", "ssh"]

_DEFAULT_PORTS: Final[Mapping[str, tuple[Scheme, int]]] = MappingProxyType(
    {"http": ("http", 80), "https": ("https", 443), "ssh": ("ssh", 22)}
)
_SCP: Final = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^/:@]+):(?!//)(?P<path>.+)")
_BARE: Final = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?/[^@\s]+")
"""A host and a path without a scheme."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitUrl:
    """A repository's address, taken apart. Prints without user information."""

    scheme: Scheme
    host: str
    port: int
    path: str
    username: str | None = None
    password: str | None = None

    @classmethod
    def parse(cls, text: str) -> "GitUrl":
        """Read ``http``, ``https`` and ``ssh`` URLs.

        Raises:
            GitSpecError: it is another kind of address, or broken (``URLInvalid``).

        """
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as exc:
            # The parser's message quotes the invalid part, which may be part of a password.
            told = "invalid repository URL: its host or port is malformed"
            if text.startswith("ssh://"):
                told += ": after ssh://, write a slash between host and path, not a colon"
            raise GitSpecError(told, reason="URLInvalid") from exc
        default = _DEFAULT_PORTS.get(parts.scheme)
        if default is None or not parts.hostname or _unprintable(text):
            raise GitSpecError(
                f"invalid repository URL{_display(parts)}: "
                f"it must start with http://, https:// or ssh:// and name a host{_meant(text)}",
                reason="URLInvalid",
            )
        return cls(
            scheme=default[0],
            host=parts.hostname,
            port=port or default[1],
            path=parts.path + (f"?{parts.query}" if parts.query else ""),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
        )

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return scheme, host and port; credentials are only sent to the same ones (RFC 6454)."""
        return self.scheme, self.host, self.port

    def join(self, reference: str) -> "GitUrl":
        """Return the URL of a submodule's ``url`` in this repository.

        Relative URLs are resolved with this repository as a directory; ``host:path`` is ssh
        (gitmodules(5), git-clone(1)).
        """
        if reference.startswith(("./", "../")):
            path = posixpath.normpath(posixpath.join(self.path, reference))
            return GitUrl.parse(urlunsplit((self.scheme, self._netloc(), path, "", "")))
        match = _SCP.fullmatch(reference)
        if match is not None:
            user = f"{match['user']}@" if match["user"] else ""
            return GitUrl.parse(f"ssh://{user}{match['host']}/{match['path'].lstrip('/')}")
        return GitUrl.parse(reference)

    def __str__(self) -> str:
        return urlunsplit((self.scheme, self._host_port(), self.path, "", ""))

    def _netloc(self) -> str:
        # Only SSH keeps its user: it is part of the address there, not a credential.
        user = f"{self.username}@" if self.username and self.scheme == "ssh" else ""
        return user + self._host_port()

    def _host_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme][1] else f"{host}:{self.port}"


def url_of(text: str) -> str:
    """Return the URL that an address without a scheme means; empty if it means none.

    ``user@host:path`` is SSH, as for git; ``host/path`` is HTTPS.
    """
    match = _SCP.fullmatch(text)
    if match is not None and match["user"] and "@" not in match["path"]:
        return f"ssh://{match['user']}@{match['host']}/{match['path'].lstrip('/')}"
    return f"https://{text}" if _BARE.fullmatch(text) else ""


def _meant(text: str) -> str:
    url = "" if _unprintable(text) else url_of(text)
    return f": write {url}" if url else ""


def _unprintable(text: str) -> bool:
    return any(ord(character) <= 0x20 or ord(character) == 0x7F for character in text)


def _display(parts: SplitResult) -> str:
    """Return the URL in quotes; empty if a password may be in an unexpected place."""
    if "@" in parts.geturl():
        return ""
    return f" '{repr(urlunsplit((parts.scheme, parts.netloc, parts.path, '', ''))[:200])[1:-1]}'"
