"""The interface of a dialect: the three protocols of object stores.

A dialect converts an operation into a request and an answer into ``Object``s. It does no IO and
reads no clock, so that it can be tested against the protocols' documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol
from urllib.parse import quote

from toolkit.remote.objectstore.http import Request
from toolkit.remote.objectstore.place import Direct, Object

PAGE: Final = 1000
"""The number of objects per page; no server returns more by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request before it is signed: the path is encoded, the query is not."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a listing, and the token of the next one, if there is one."""

    objects: tuple[Object, ...]
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The content to write: bytes or a file, and its size in bytes."""

    body: bytes | Path
    size: int


class Dialect(Protocol):
    """One protocol, bound to one place."""

    def listing(self, prefix: str, token: str) -> Ask:
        """Ask for one page of the objects whose key starts with ``prefix``."""

    def page(self, body: bytes) -> Page:
        """Read the answer to that. Raises ``ValueError`` or ``XmlError`` if it is not valid."""

    def reading(self, key: str, expect: Object | None, span: tuple[int, int] | None) -> Ask:
        """Ask for the content, of the expected object only; ``span`` is start and length."""

    def answers(self, expect: Object, headers: Mapping[str, str]) -> bool:
        """Tell whether an answer is for the expected object, for servers that ignore conditions."""

    def looking(self, key: str) -> Ask:
        """Request the properties of an object without its content."""

    def seen(self, key: str, headers: Mapping[str, str], body: bytes) -> Object:
        """Read the answer to that, or to a write."""

    def writing(
        self, key: str, payload: Payload, if_match: Object | None, *, if_absent: bool
    ) -> Ask:
        """Write an object, if it replaces the given object, or if there is none."""

    def deleting(self, key: str) -> Ask:
        """Delete an object."""

    def signed(self, ask: Ask, credentials: Direct, now: datetime) -> Request:
        """Sign a request. Raises ``CredentialsError`` if the credentials do not fit."""


def encode(text: str, *, safe: str = "") -> str:
    """Percent-encode all but letters, digits, ``-._~`` and those of ``safe`` (RFC 3986)."""
    return quote(text, safe=safe + "-._~")


def url(origin: str, path: str, query: Mapping[str, str]) -> str:
    """Return the URL to send, and to sign, just so."""
    parts = sorted((encode(name), encode(value)) for name, value in query.items())
    return f"{origin}{path}" + ("?" + "&".join(map("=".join, parts)) if parts else "")


def etag(value: str) -> str:
    """Return an entity tag without its quotes, which listings have and headers lack, or so."""
    return value.strip().removeprefix("W/").strip('"')


def conditions(if_match: Object | None, *, if_absent: bool) -> dict[str, str]:
    """Return the headers of a conditional write (RFC 9110 §13.1)."""
    if if_absent:
        return {"If-None-Match": "*"}
    return {"If-Match": f'"{if_match.etag}"'} if if_match else {}


def span_header(span: tuple[int, int] | None) -> dict[str, str]:
    """Return the header for ``length`` bytes from ``start`` on (RFC 9110 §14.2)."""
    return {"Range": f"bytes={span[0]}-{span[0] + span[1] - 1}"} if span else {}


def getting(path: str, expect: Object | None, span: tuple[int, int] | None) -> Ask:
    """Ask for content, of the expected object and a part of it if they are given."""
    return Ask(
        method="GET", path=path, headers=conditions(expect, if_absent=False) | span_header(span)
    )


def putting(  # noqa: PLR0913  # the content, and the conditions
    path: str,
    payload: Payload,
    if_match: Object | None = None,
    *,
    method: str = "PUT",
    query: Mapping[str, str] = MappingProxyType({}),
    if_absent: bool = False,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Ask:
    """Write content in one piece, under conditions if they are given."""
    return Ask(
        method=method,
        path=path,
        query=query,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Length": str(payload.size),
            **more,
            **conditions(if_match, if_absent=if_absent),
        },
        body=payload.body,
    )


def same_tag(expect: Object, headers: Mapping[str, str]) -> bool:
    """Tell whether the headers of an answer are those of the expected object."""
    return etag(headers.get("ETag", "")) == expect.etag


def from_headers(key: str, headers: Mapping[str, str]) -> Object:
    """Return an object from the headers of an answer."""
    length = headers.get("Content-Length", "")
    return Object(
        key=key,
        etag=etag(headers.get("ETag", "")),
        size=int(length) if length.isdecimal() else 0,
        modified=_date(headers.get("Last-Modified", "")),
    )


def with_size(found: Object, size: int) -> Object:
    """Return the object with the size that was written."""
    return replace(found, size=size)


def moment(value: str) -> datetime | None:
    """Return an RFC 3339 time, or None if it is invalid."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _date(value: str) -> datetime | None:
    try:
        return parsedate_to_datetime(value).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
