"""Objects in a bucket: list, read, write and delete them, in S3, Google or Azure.

The protocols are implemented here, because libraries do not have all of this: listings with
unchanged keys (a "folder" ``a/`` is not an object ``a``), any text as prefix, client certificates,
and no use of the process's environment.

Uploads are neither split nor resumed, because artifacts have a limited size.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self, TypeVar

import aiohttp

from toolkit.remote.objectstore import credentials as objectstorecredentials
from toolkit.remote.objectstore import file, http
from toolkit.remote.objectstore.azure import Azure
from toolkit.remote.objectstore.credentials import Keyring
from toolkit.remote.objectstore.dialect import Ask, Dialect, Payload, with_size
from toolkit.remote.objectstore.errors import (
    BucketNotFoundError,
    CredentialsError,
    ObjectChangedError,
    ObjectNotFoundError,
    ObjectStoreError,
    PlaceError,
)
from toolkit.remote.objectstore.gcs import Gcs
from toolkit.remote.objectstore.http import CHUNK, Subject, Wire
from toolkit.remote.objectstore.place import (
    Anonymous,
    AzureClient,
    AzureKey,
    AzureSas,
    BearerToken,
    Credentials,
    GcsServiceAccount,
    LdapIdentity,
    Object,
    Place,
    Provided,
    S3Keys,
)
from toolkit.remote.objectstore.s3 import S3
from toolkit.remote.objectstore.xml import XmlError

__all__ = [
    "Anonymous",
    "AzureClient",
    "AzureKey",
    "AzureSas",
    "BearerToken",
    "BucketNotFoundError",
    "Credentials",
    "CredentialsError",
    "GcsServiceAccount",
    "LdapIdentity",
    "Object",
    "ObjectChangedError",
    "ObjectNotFoundError",
    "ObjectStore",
    "ObjectStoreError",
    "Place",
    "PlaceError",
    "Provided",
    "S3Keys",
]

T = TypeVar("T")

MAX_PAGES: Final = 10_000
_DELETES: Final = 16
_AT_ONCE: Final = 32 << 10
"""Bytes of a page that take so little time that a thread would take more."""


class ObjectStore:
    """One bucket. Make it in a running loop, use it with ``async with``, or ``close`` it.

    ``timeout`` is in seconds, for each call (each page of a listing), retries included. Every
    method raises ``ObjectStoreError`` or one of its kinds (``objectstoreerrors``); making one
    raises ``PlaceError`` or ``CredentialsError`` if it can never work.
    """

    def __init__(self, place: Place, *, timeout: float = 60.0) -> None:
        self._place = place
        self._timeout = timeout
        self._dialect = _dialect(place)
        objectstorecredentials.check(place.credentials)
        self._wire = Wire(
            ca=place.ca,
            client_cert=place.client_cert,
            client_key=place.client_key,
            proxy=place.proxy,
            patience=timeout,
        )
        self._keyring = Keyring(place, self._wire, patience=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._wire.close()

    async def list(self, prefix: str = "") -> AsyncIterator[Object]:
        """Yield the objects whose key starts with ``prefix``, "folders" (``a/``) included.

        Raises:
            BucketNotFoundError: there is no such bucket.
        """
        subject, token = self._subject("list the bucket"), ""
        for _ in range(MAX_PAGES):
            ask = self._dialect.listing(prefix, token)
            try:
                body, _ = await self._ask(ask, subject)
            except ObjectNotFoundError as exc:
                message = f"bucket '{self._place.bucket}' not found"
                raise BucketNotFoundError(message, status=404) from exc
            if len(body) > _AT_ONCE:
                page = await asyncio.to_thread(_understood, self._dialect.page, body, subject)
            else:
                page = _understood(self._dialect.page, body, subject)
            for found in page.objects:
                yield found
            if not page.token:
                return
            if page.token == token:
                break
            token = page.token
        raise ObjectStoreError(f"cannot {subject.action} at {subject.host}: the list does not end")

    async def head(self, key: str) -> Object:
        """Return the properties of an object.

        Raises:
            ObjectNotFoundError: the object does not exist.
        """
        subject = self._subject(f"look at the object '{_shown(key)}'")
        body, headers = await self._ask(self._dialect.looking(key), subject)
        return _understood(lambda body: self._dialect.seen(key, headers, body), body, subject)

    async def read(self, key: str, into: Path, *, limit: int, expect: Object | None = None) -> int:
        """Write the content into a new file of at most ``limit`` bytes and return its size.

        With ``expect`` it is that object's or none. A failed read leaves no file behind.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it is not, or no longer, the expected one.
        """
        subject = self._subject(f"read the object '{_shown(key)}'")

        async def work() -> int:
            async with self._content(key, expect, None, subject) as response:
                return await file.save(response, into, limit, expect, subject)

        return await http.retry(work, subject, within=self._timeout)

    async def read_range(self, key: str, start: int, length: int) -> AsyncIterator[bytes]:
        """Yield ``length`` bytes from ``start`` on, in chunks; it is not retried.

        ``timeout`` limits the time in which the server sends nothing, not the total.
        """
        subject = self._subject(f"read the object '{_shown(key)}'")
        left = length
        async with self._content(key, None, (start, length), subject) as response:
            if response.status != 206 and start:
                raise ObjectStoreError(f"cannot {subject.action}: the server ignores ranges")
            async for chunk in response.content.iter_chunked(CHUNK):
                yield chunk[:left]
                left -= min(left, len(chunk))
                if not left:
                    break
        if left:
            raise ObjectStoreError(f"cannot {subject.action} at {subject.host}: it ended early")

    async def write(
        self, key: str, path: Path, *, if_match: Object | None = None, if_absent: bool = False
    ) -> Object:
        """Write a file's content as an object, which appears whole or not at all.

        Raises:
            ObjectChangedError: there is another object than ``if_match``, or any if ``if_absent``.
        """
        status = await asyncio.to_thread(path.stat)
        payload = Payload(body=path, size=status.st_size)
        return await self._write(key, payload, if_match, if_absent=if_absent)

    async def write_bytes(
        self, key: str, data: bytes, *, if_match: Object | None = None, if_absent: bool = False
    ) -> Object:
        """Do the same with bytes."""
        return await self._write(
            key, Payload(body=data, size=len(data)), if_match, if_absent=if_absent
        )

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, some at a time; missing objects are no error."""
        gate = asyncio.Semaphore(_DELETES)

        async def one(key: str) -> None:
            subject = self._subject(f"delete the object '{_shown(key)}'")
            async with gate:
                try:
                    await self._ask(self._dialect.deleting(key), subject)
                except ObjectNotFoundError:
                    return

        try:
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    group.create_task(one(key))
        except* ObjectStoreError as failed:
            raise _first(failed) from None

    async def _write(
        self, key: str, payload: Payload, if_match: Object | None, *, if_absent: bool
    ) -> Object:
        subject = self._subject(f"write the object '{_shown(key)}'")
        ask = self._dialect.writing(key, payload, if_match, if_absent=if_absent)
        body, headers = await self._ask(ask, subject)
        found = _understood(lambda body: self._dialect.seen(key, headers, body), body, subject)
        return with_size(found, payload.size)

    async def _ask(self, ask: Ask, subject: Subject) -> tuple[bytes, Mapping[str, str]]:
        async def work() -> tuple[bytes, Mapping[str, str]]:
            credentials = await self._keyring.get()
            request = self._dialect.signed(ask, credentials, datetime.now(UTC))
            return await self._wire.text(request, subject)

        return await http.retry(work, subject, within=self._timeout)

    @asynccontextmanager
    async def _content(
        self, key: str, expect: Object | None, span: tuple[int, int] | None, subject: Subject
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        ask = self._dialect.reading(key, expect, span)
        credentials = await self._keyring.get()
        request = self._dialect.signed(ask, credentials, datetime.now(UTC))
        async with _meaning(expect, subject), self._wire.send(request, subject) as response:
            if expect and not self._dialect.answers(expect, response.headers):
                raise ObjectChangedError(f"cannot {subject.action}: it changed since it was listed")
            yield response

    def _subject(self, action: str) -> Subject:
        place = self._place
        action = (
            f"{action} '{place.bucket}'"
            if action.endswith("bucket")
            else (f"{action} of bucket '{place.bucket}'")
        )
        return Subject(action=action, host=place.host, bucket=place.bucket)


def _dialect(place: Place) -> Dialect:
    match place.provider:
        case "gcp":
            return Gcs(place)
        case "azure":
            return Azure(place)
        case "generic" | "aws":
            return S3(place)


@asynccontextmanager
async def _meaning(expect: Object | None, subject: Subject) -> AsyncIterator[None]:
    """Tell an object that is gone since it was listed from one that never was."""
    try:
        yield
    except ObjectNotFoundError as exc:
        if expect is None:
            raise
        raise ObjectChangedError(
            f"cannot {subject.action}: it changed since it was listed"
        ) from exc


def _understood(read: Callable[[bytes], T], body: bytes, subject: Subject) -> T:
    try:
        return read(body)
    except (XmlError, ValueError) as exc:
        raise ObjectStoreError(
            f"cannot {subject.action} at {subject.host}: the answer is not understood"
        ) from exc


def _first(failed: BaseExceptionGroup[ObjectStoreError]) -> ObjectStoreError:
    error = failed.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _shown(key: str) -> str:
    """Shorten a key for a message, and keep control characters out of it."""
    return ascii(key[:200])[1:-1]
