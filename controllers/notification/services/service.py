"""The inputs of a service: its target, and the interface for HTTP requests."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from controllers.notification.events.matching import Notice
from toolkit import untrusted
from toolkit.errors import StalledError
from toolkit.remote.errors import HttpError

_T = TypeVar("_T")
_MOST_ANSWER: Final = 4 << 20
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class UnsuitableError(StalledError):
    """The service can never accept this event; a retry does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A Provider with the content of its Secret; ``lent`` is true if a cloud issued the token."""

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
    status_id: str = ""
    """What ``status_expression`` gives for the notice that is sent."""

    def base(self, default: str = "") -> str:
        """Return the address without a slash at the end, or the default."""
        return (self.address or default).rstrip("/")

    @property
    def host(self) -> str:
        """Return the host of the address; the rest may be secret. Empty if it is not a URL."""
        try:
            return urlsplit(self.address).hostname or ""
        except ValueError:
            return ""

    def parts(self) -> SplitResult:
        """Return the parts of the address without a slash at its end.

        Raises:
            UnsuitableError: the address is not a URL.
        """
        try:
            parts = urlsplit(self.base())
            _ = parts.port
        except ValueError as exc:
            raise UnsuitableError("the address is not a URL: correct its host or port") from exc
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response of a service; its status is below 400."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A connection, still without TLS.

    ``context`` is for the TLS handshake. If ``secure``, nothing may be sent before it. The reader's
    limit is 64 KiB.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    context: ssl.SSLContext
    secure: bool


class Ask(Protocol):
    """Sends a request to a service, or connects to one that does not use HTTP."""

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] = _NONE,
    ) -> Answer:
        """Return the response.

        Raises:
            HttpError: the service did not answer in time, or with a status of 400 or more.
        """

    async def dial(self, host: str, port: int) -> Line:
        """Return a connection, which the caller closes.

        Raises:
            HttpError: the service did not answer, or has a forbidden address.
            UnsuitableError: the Provider has a proxy, which supports only HTTP.
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


def decoded(body: bytes, kind: type[_T]) -> _T:
    """Return the JSON that a service answered with.

    Raises:
        HttpError: it is something else, so the address may be that of another service.
    """
    try:
        return untrusted.load_json(body, kind, size=_MOST_ANSWER)
    except untrusted.UntrustedError as exc:
        raise HttpError(f"the service sent an answer that cannot be read: {exc}") from exc


def bearer(token: str) -> dict[str, str]:
    """Return the header with a token; empty without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}
