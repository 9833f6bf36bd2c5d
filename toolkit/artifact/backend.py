"""Which store the operator asked for: a local directory, or a bucket given as a URL.

::

    s3://<bucket>/<prefix>?region=<region>                     AWS
    s3://<bucket>/<prefix>?endpoint=https://minio.example:9000 any other S3 server
    gs://<bucket>/<prefix>
    az://<account>/<container>/<prefix>

``credentials=<directory>`` names a mounted Secret with the keys that a Bucket's Secret has, and
``ca=<file>`` who is trusted. Without it the process's own identity counts, the only place where one
does: the environment's keys, or what the cloud gives the pod. A URL never holds a secret.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from toolkit.artifact import bucketkeys, layout, room
from toolkit.artifact.bucket import BucketStorage
from toolkit.artifact.bucketkeys import Lend
from toolkit.artifact.cache import Cache
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Store
from toolkit.errors import StalledError
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.cloud.identity import Bearer, SessionKeys
from toolkit.remote.objectstore.objectstore import ObjectStore, ObjectStoreError, Place
from toolkit.remote.objectstore.place import Provider

logger = logging.getLogger(__name__)

REASON: Final = "StorageOperationFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A bucket as the operator wrote it; ``prefix`` is empty or ends in a slash."""

    provider: Provider
    endpoint: str
    bucket: str
    prefix: str = ""
    region: str = ""
    plain_http: bool = False
    credentials: Path | None = None
    ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of both kinds of store. ``root`` has the artifacts, or temporary files."""

    root: Path
    advertised: str
    retention_ttl: float = 60.0
    retention_records: int = 2
    cache_bytes: int = 2 << 30
    """Size of the local cache for artifacts that were read from a bucket."""
    namespace_bytes: int = 0
    """Quota for the artifacts of one namespace in bytes; 0 means no quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A store in use. ``shared`` tells whether every replica serves it; ``close`` it at the end.

    ``local`` is below which directory ``Store.local`` gives the artifacts of a kind.
    """

    store: Store
    local: Callable[[str], Path]
    shared: bool
    close: Callable[[], Awaitable[None]]


async def open_store(
    backend: str,
    settings: Settings,
    *,
    cloud: Cloud | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Opened:
    """Open the store of ``--storage-backend``; empty means the local directory.

    If a bucket does not answer, this is no error yet: the objects that need it will report it.

    Raises:
        StalledError: the URL is invalid, or the credentials are incomplete.
    """
    address = parse(backend)
    if address is None:
        local = Storage(
            settings.root,
            advertised=settings.advertised,
            retention_ttl=settings.retention_ttl,
            retention_records=settings.retention_records,
            room=room.of(settings.namespace_bytes),
        )
        return Opened(
            store=local,
            local=lambda kind: settings.root / kind.lower(),
            shared=False,
            close=_nothing,
        )
    place = await asyncio.to_thread(_place, address, cloud, environment)
    async with AsyncExitStack() as stack:
        quick = await stack.enter_async_context(ObjectStore(place, timeout=_QUICK_SECONDS))
        bulk = await stack.enter_async_context(ObjectStore(place, timeout=_BULK_SECONDS))
        cache = Cache(settings.root / "cache", idle_copies=_COPIES, idle_bytes=settings.cache_bytes)
        await cache.open()
        stack.push_async_callback(cache.close)
        await _look(quick, address)
        store = BucketStorage(
            quick=quick,
            bulk=bulk,
            prefix=address.prefix,
            scratch=cache.own / "spool",
            cache=cache,
            advertised=settings.advertised,
            retention_ttl=settings.retention_ttl,
            retention_records=settings.retention_records,
            room=room.of(settings.namespace_bytes),
        )
        own = cache.own
        return Opened(store=store, local=lambda _: own, shared=True, close=stack.pop_all().aclose)


def parse(text: str) -> Address | None:
    """Read ``--storage-backend``; ``None`` is the local directory.

    Raises:
        StalledError: it is not one of the forms above; the message does not repeat it.
    """
    if text in ("", "local"):
        return None
    try:
        url = urlsplit(text)
        query = parse_qs(url.query, strict_parsing=bool(url.query), keep_blank_values=True)
    except ValueError as exc:
        raise _wrong("is not a URL") from exc
    if url.scheme not in _SCHEMES:
        raise _wrong(f"has none of the schemes {', '.join(_SCHEMES)}")
    if "@" in url.netloc or url.fragment:
        raise _wrong("must not hold a user, a password or a fragment: use 'credentials'")
    return _SCHEMES[url.scheme](url, _options(query))


_COPIES: Final = 4096
_QUICK_SECONDS: Final = 15.0
_BULK_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    endpoint: str = ""
    region: str = ""
    credentials: Path | None = None
    ca: Path | None = None


def _options(query: Mapping[str, list[str]]) -> _Options:
    known = ("endpoint", "region", "credentials", "ca")
    if unknown := sorted(set(query) - set(known)):
        shown = ascii(unknown[0][:40])
        raise _wrong(f"has the unknown option {shown}; there are {', '.join(known)}")
    if twice := [name for name, values in query.items() if len(values) > 1]:
        raise _wrong(f"has the option '{twice[0]}' twice")
    options = {name: values[0] for name, values in query.items()}
    return _Options(
        endpoint=options.get("endpoint", ""),
        region=options.get("region", ""),
        credentials=Path(options["credentials"]) if options.get("credentials") else None,
        ca=Path(options["ca"]) if options.get("ca") else None,
    )


def _s3(url: SplitResult, options: _Options) -> Address:
    if not options.endpoint and not options.region:
        raise _wrong("needs 'region' (AWS) or 'endpoint' (another S3 server)")
    return _address(
        "generic" if options.endpoint else "aws",
        url.netloc,
        url.path,
        options,
        endpoint=f"s3.{options.region}.amazonaws.com",
    )


def _google(url: SplitResult, options: _Options) -> Address:
    return _address("gcp", url.netloc, url.path, options, endpoint="storage.googleapis.com")


def _azure(url: SplitResult, options: _Options) -> Address:
    container, _, prefix = url.path.removeprefix("/").partition("/")
    endpoint = f"https://{url.netloc}.blob.core.windows.net"
    if not url.netloc:
        raise _wrong("names no storage account")
    return _address("azure", container, prefix, options, endpoint=endpoint)


_SCHEMES: Final[Mapping[str, Callable[[SplitResult, _Options], Address]]] = MappingProxyType(
    {"s3": _s3, "gs": _google, "az": _azure}
)


def _address(
    provider: Provider, bucket: str, path: str, options: _Options, *, endpoint: str
) -> Address:
    if not bucket:
        raise _wrong("names no bucket")
    segments = [segment for segment in path.split("/") if segment]
    if any(segment in (".", "..") for segment in segments):
        raise _wrong("has a prefix with '.' or '..'")
    address = Address(
        provider=provider,
        endpoint=options.endpoint or endpoint,
        bucket=bucket,
        prefix="".join(f"{segment}/" for segment in segments),
        region=options.region,
        plain_http=options.endpoint.startswith("http://"),
        credentials=options.credentials,
        ca=options.ca,
    )
    _ = Place(
        provider=provider,
        endpoint=address.endpoint,
        bucket=bucket,
        plain_http=address.plain_http,
    ).base
    return address


def _place(address: Address, cloud: Cloud | None, environment: Mapping[str, str]) -> Place:
    return Place(
        provider=address.provider,
        endpoint=address.endpoint,
        bucket=address.bucket,
        region=address.region,
        plain_http=address.plain_http,
        ca=bucketkeys.file(address.ca, named_by="ca") if address.ca else None,
        credentials=bucketkeys.credentials(
            address.provider,
            directory=address.credentials,
            environment=environment,
            lend=_lender(address, cloud),
        ),
    )


def _lender(address: Address, cloud: Cloud | None) -> Lend | None:
    if cloud is None or address.provider == "generic":
        return None

    def lend() -> Awaitable[SessionKeys | Bearer]:
        return cloud.bucket(address.provider, address.endpoint, region=address.region)

    return lend


def _wrong(how: str) -> StalledError:
    return StalledError(f"--storage-backend {how}", reason=REASON)


async def _nothing() -> None:
    """Close a local directory."""


async def _look(objects: ObjectStore, address: Address) -> None:
    """Log early if the bucket does not answer, before the objects report it."""
    try:
        async for _ in objects.list(f"{address.prefix}{layout.LINK}"):
            break
    except ObjectStoreError as error:
        logger.error(  # noqa: TRY400  # it will be tried again
            "the bucket of --storage-backend cannot be read", extra={"error": str(error)}
        )
    else:
        logger.info(
            "artifacts are kept in a bucket",
            extra={"bucket": address.bucket, "prefix": address.prefix},
        )
