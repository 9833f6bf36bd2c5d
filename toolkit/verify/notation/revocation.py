"""Asking whether certificates are revoked: OCSP responders and revocation lists, by plain HTTP.

Which servers to ask stands in certificates, so anyone who runs an authority that a tenant trusts
decides where we connect to. That is why

1. only servers of chains that lead to a trusted certificate are asked (the engine sees to it),
2. only public addresses are, unless the operator allows private ones; link-local ones never are,
3. requests, bytes and seconds are few.

Answers carry their issuer's signature, which the engine checks each time. Once they have been of
use they are kept until they say that they are out of date, but not for longer than an hour: what
was revoked since must not pass for days.
"""

import asyncio
import time
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol

import aiohttp
import msgspec

from toolkit.remote.http import http
from toolkit.remote.http.http import Endpoint, HttpError

MAX_REQUESTS: Final = 16
"""Limit for one signature; a chain of three certificates needs two, or four with lists too."""
SECONDS: Final = 10.0

_MAX_BYTES: Final = MappingProxyType({"ocsp": 20 << 10, "crl": 16 << 20})
_KEPT_SECONDS: Final = 3600.0
_MAX_KEPT: Final = 1024
_MAX_KEPT_BYTES: Final = 64 << 20
_AT_ONCE: Final = 4
# A reserved name (RFC 2606), so that servers named in certificates must have public addresses.
_NAMED_BY_A_STRANGER: Final = "http://certificate.invalid"
_NAMED_BY_A_NEIGHBOUR: Final = "http://127.0.0.1"


class Need(msgspec.Struct, frozen=True):
    """A request that a verification wants made; ``kind`` is ocsp or crl, ``body`` is base64."""

    kind: str
    method: str
    url: str
    body: str = ""


class Answer(msgspec.Struct, frozen=True):
    """The result of a request: a status and content (base64), or an error."""

    method: str
    url: str
    body: str = ""
    status: int = 0
    content: str = ""
    error: str = ""


class Requests(Protocol):
    """The part of ``toolkit.remote.http.http.Http`` that is used here."""

    def request(  # noqa: PLR0913  # the signature of Http
        self,
        method: str,
        url: str,
        *,
        endpoint: Endpoint,
        headers: Mapping[str, str] = ...,
        body: bytes | None = ...,
        timeout: float,
        named_by: str = ...,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Send a request."""
        ...


class Responders:
    """Sends requests to revocation servers; concurrent callers share answers."""

    def __init__(
        self,
        requests: Requests,
        *,
        allow_private: bool = False,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._requests = requests
        self._named_by = _NAMED_BY_A_NEIGHBOUR if allow_private else _NAMED_BY_A_STRANGER
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[Need, tuple[Answer, float]] = OrderedDict()

    async def ask(self, needs: Sequence[Need]) -> Sequence[Answer]:
        """Return an answer for each need; a server that has none is an answer too."""
        turn = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._answer(need, turn)) for need in needs]
        return [task.result() for task in tasks]

    def keep(self, answers: Mapping[Need, Answer], *, until: datetime) -> None:
        """Keep answers that were of use."""
        end = min(until.timestamp(), self._clock() + _KEPT_SECONDS)
        for need, answer in answers.items():
            kept = self._kept.get(need)
            if not answer.error and (kept is None or kept[0] != answer):
                self._kept[need] = (answer, end)
        while len(self._kept) > _MAX_KEPT or self._weight() > _MAX_KEPT_BYTES:
            self._kept.popitem(last=False)

    def _weight(self) -> int:
        return sum(len(answer.content) for answer, _ in self._kept.values())

    async def _answer(self, need: Need, turn: asyncio.Semaphore) -> Answer:
        kept = self._kept.get(need)
        if kept is not None and kept[1] > self._clock():
            return kept[0]
        self._kept.pop(need, None)
        async with turn:
            try:
                status, content = await self._fetch(need)
            except HttpError as exc:
                return Answer(need.method, need.url, need.body, error=str(exc))
        text = b64encode(content).decode()
        return Answer(need.method, need.url, need.body, status=status, content=text)

    async def _fetch(self, need: Need) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/ocsp-request"} if need.body else {}
        async with self._requests.request(
            need.method,
            need.url,
            endpoint=Endpoint(plain_http=True),
            headers=headers,
            body=b64decode(need.body) if need.body else None,
            timeout=self._seconds,
            named_by=self._named_by,
        ) as response:
            return response.status, await http.read(response, limit=_MAX_BYTES[need.kind])
