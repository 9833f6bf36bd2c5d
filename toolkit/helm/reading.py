"""An identity that can only read, for actions that must not change anything.

A template may copy the values that it looks up into the objects that it renders. So the values of
all Secrets that it read are known when the action ends. If an answer with Secrets could not be
parsed, this is known too.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote

import msgspec

from toolkit.errors import AccessDeniedError
from toolkit.helm.gates import Exchanging, Response

_MOST: Final = 8 << 20
"""Limit of an answer with Secrets in bytes; a larger answer counts as not parsed."""


class Reading:
    """A client whose requests may only read.

    ``values`` are those of Secrets that were read, as they are and in base64. ``unknown`` tells
    that there are more.
    """

    def __init__(self, client: Exchanging) -> None:
        self._client = client
        self.values: set[str] = set()
        self.unknown = False

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        """Send a request that reads.

        Raises:
            AccessDeniedError: the request does not only read.
        """
        if method != "GET":
            raise AccessDeniedError(f"this action must change nothing, and requested {method}")
        async with self._client.exchange(method, target, headers=headers, body=body) as (
            status,
            answered,
            chunks,
        ):
            secret = status < 300 and "secrets" in unquote(target.partition("?")[0]).split("/")
            yield status, answered, self._kept(chunks) if secret else chunks

    async def _kept(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        kept, complete = bytearray(), False
        try:
            async for chunk in chunks:
                if len(kept) <= _MOST:
                    kept += chunk
                yield chunk
            complete = len(kept) <= _MOST
        finally:
            self._note(kept if complete else b"")

    def _note(self, answer: bytes | bytearray) -> None:
        try:
            found = _DECODER.decode(answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unknown = True
            return
        for secret in (found, *(found.items or ())):
            for value in (secret.data or {}).values():
                self.values |= {value, _plain(value)}


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


class _Secrets(_Secret):
    items: list[_Secret] | None = None


_DECODER: Final = msgspec.json.Decoder(_Secrets)


def _plain(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except (binascii.Error, ValueError):
        return value
