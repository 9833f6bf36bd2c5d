"""What a service is given: where and as whom to tell, and the one way to ask over HTTP."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from controllers.notification.events.matching import Notice
from toolkit.errors import StalledError

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class UnsuitableError(StalledError):
    """The event can never be told to this service; trying again does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A Provider with what its Secret holds; ``lent`` tells of a token that a cloud gave."""

    type: str
    namespace: str
    name: str
    uid: str = ""
    address: str = field(default="", repr=False)
    channel: str = ""
    username: str = ""
    token: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    lent: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    status_expression: str = ""

    def base(self, default: str = "") -> str:
        """Return the address without a slash at the end, or the default."""
        return (self.address or default).rstrip("/")

    @property
    def host(self) -> str:
        """Return the host of the address; the rest may be secret."""
        return urlsplit(self.address).hostname or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a service answered; its status is below 400."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A connection without TLS so far.

    ``context`` is whom to trust when TLS begins; ``secure`` says that nothing is sent before. The
    reader's limit is 64 KiB.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    context: ssl.SSLContext
    secure: bool


class Ask(Protocol):
    """Send one request to a stranger, or dial one that does not speak HTTP."""

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] = _NONE,
    ) -> Answer:
        """Return the answer.

        Raises:
            HttpError: there is none in time, or one of 400 or more.
        """

    async def dial(self, host: str, port: int) -> Line:
        """Return a connection, which the caller closes.

        Raises:
            HttpError: nobody answers there, or it is an address that does not count.
            UnsuitableError: there is a proxy, which only HTTP goes through.
        """


Send = Callable[[Notice, Target, Ask], Awaitable[None]]


async def post(
    ask: Ask,
    url: str,
    body: object,
    headers: Mapping[str, str] = _NONE,
    *,
    method: str = "POST",
) -> Answer:
    """Send JSON and return the answer."""
    sent = msgspec.json.encode(body)
    return await ask(
        method, url, body=sent, headers={"Content-Type": "application/json", **headers}
    )


def bearer(token: str) -> dict[str, str]:
    """Return the header with a token, none where there is none."""
    return {"Authorization": f"Bearer {token}"} if token else {}
