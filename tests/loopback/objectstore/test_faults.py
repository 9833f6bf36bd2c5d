"""Servers that fail, lie or attack: what the client makes of them, against S3's protocol."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.fakes.objectfake import FakeObjectServer, Handler, listing, saying
from toolkit.remote.objectstore.objectstore import (
    Object,
    ObjectChangedError,
    ObjectStore,
    ObjectStoreError,
    Place,
    S3Keys,
)
from toolkit.remote.proxy import Proxy

SECRET = "the secret key"


@pytest.fixture
async def fake() -> AsyncIterator[FakeObjectServer]:
    async with FakeObjectServer(saying(500)) as running:
        yield running


@pytest.fixture
async def store(fake: FakeObjectServer) -> AsyncIterator[ObjectStore]:
    keys = S3Keys(access_key="access", secret_key=SECRET, session_token="session token")
    async with ObjectStore(
        Place(
            provider="generic",
            endpoint=fake.endpoint,
            bucket="bucket",
            plain_http=True,
            credentials=keys,
        ),
        timeout=5,
    ) as opened:
        yield opened


def first(*answers: Handler) -> Handler:
    """Answer the first requests one way each, and all later ones like the last."""
    left = list(answers)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


async def listed(store: ObjectStore) -> list[str]:
    return [found.key async for found in store.list()]


async def test_what_may_pass_is_tried_again(fake: FakeObjectServer, store: ObjectStore) -> None:
    fake.answer = first(
        saying(503), saying(429, Retry_After="0"), saying(200, listing(("a", "1", 1)))
    )

    assert await listed(store) == ["a"]
    assert len(fake.asked) == 3


async def test_what_stays_is_not_tried_for_ever(fake: FakeObjectServer, store: ObjectStore) -> None:
    with pytest.raises(ObjectStoreError, match="500 Internal Server Error") as caught:
        await listed(store)

    assert caught.value.status == 500
    assert len(fake.asked) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 409])
async def test_a_refusal_is_not_tried_again(
    fake: FakeObjectServer, store: ObjectStore, status: int
) -> None:
    fake.answer = saying(status, b"<Error><Code>NoWay</Code></Error>")

    with pytest.raises(ObjectStoreError, match=f"{status} NoWay"):
        await listed(store)

    assert len(fake.asked) == 1


async def test_a_server_that_asks_for_much_patience_gets_no_more_than_the_deadline(
    fake: FakeObjectServer, store: ObjectStore
) -> None:
    fake.answer = saying(503, Retry_After="99999")
    store._timeout = 2

    with pytest.raises(ObjectStoreError, match=r"no response within 2s; before that, .*503"):
        await listed(store)


async def test_a_server_that_does_not_answer_is_given_up(
    fake: FakeObjectServer, store: ObjectStore
) -> None:
    async def silent(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    fake.answer = silent
    store._timeout = 0.2

    with pytest.raises(ObjectStoreError, match="no response within"):
        await listed(store)


async def test_errors_repeat_nothing_that_the_server_says(
    fake: FakeObjectServer, store: ObjectStore
) -> None:
    async def repeating(request: web.Request) -> web.StreamResponse:
        told = " ".join(request.headers.values())
        body = f"<Error><Code>{told}</Code><Message>{told} {request.raw_path}</Message></Error>"
        return web.Response(status=403, text=body, reason=told.replace("\n", " ")[:100])

    fake.answer = repeating

    with pytest.raises(ObjectStoreError) as caught:
        await listed(store)

    told = str(caught.value)
    assert told == f"cannot list the bucket 'bucket' at {fake.endpoint}: 403 Forbidden"


async def test_the_region_that_the_server_names_is_told(
    fake: FakeObjectServer, store: ObjectStore
) -> None:
    fake.answer = saying(
        301, b"<Error><Code>PermanentRedirect</Code></Error>", x_amz_bucket_region="eu-west-1"
    )

    with pytest.raises(ObjectStoreError, match=r"in region 'eu-west-1': set spec\.region"):
        await listed(store)


async def test_the_region_in_an_error_is_told(fake: FakeObjectServer, store: ObjectStore) -> None:
    code = b"<Code>AuthorizationHeaderMalformed</Code>"
    fake.answer = saying(400, b"<Error>" + code + b"<Region>eu-west-1</Region></Error>")

    with pytest.raises(ObjectStoreError, match="in region 'eu-west-1'"):
        await listed(store)


async def test_a_range_that_stops_coming_is_given_up(fake: FakeObjectServer) -> None:
    async def stopping(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=206)
        response.content_length = 10
        await response.prepare(request)
        await response.write(b"12345")
        await asyncio.sleep(60)
        return response

    fake.answer = stopping
    place = Place(provider="generic", endpoint=fake.endpoint, bucket="b", plain_http=True)
    async with ObjectStore(place, timeout=2) as store:
        with pytest.raises(ObjectStoreError, match="no response in time"):
            _ = [chunk async for chunk in store.read_range("key", 0, 10)]


async def test_redirects_are_not_followed(fake: FakeObjectServer, store: ObjectStore) -> None:
    async with FakeObjectServer(saying(200, listing())) as elsewhere:
        fake.answer = saying(307, Location=f"http://{elsewhere.endpoint}/")

        with pytest.raises(ObjectStoreError, match="307"):
            await listed(store)

        assert elsewhere.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not xml",
        b"<Html/>",
        b"<ListBucketResult><Contents><Key>a</Key><Size>much</Size></Contents></ListBucketResult>",
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><ListBucketResult>&a;</ListBucketResult>',
        b"<ListBucketResult>" + b"<a>" * 100_000,
        b"<ListBucketResult>" + b"<a/>" * 300_000 + b"</ListBucketResult>",
        listing(("%ff", "1", 1)),
    ],
)
async def test_a_listing_that_is_none_is_refused(
    fake: FakeObjectServer, store: ObjectStore, body: bytes
) -> None:
    fake.answer = saying(200, body)

    with pytest.raises(ObjectStoreError, match="the answer is not understood"):
        await listed(store)


async def test_a_listing_that_goes_in_circles_ends(
    fake: FakeObjectServer, store: ObjectStore
) -> None:
    fake.answer = saying(200, listing(("a", "1", 1), token="again"))

    with pytest.raises(ObjectStoreError, match="does not end"):
        await listed(store)

    assert len(fake.asked) == 2


async def test_an_answer_that_is_too_long_is_cut(
    fake: FakeObjectServer, store: ObjectStore
) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * (1 << 20))

    fake.answer = endless

    with pytest.raises(ObjectStoreError, match="larger than"):
        await listed(store)


def sending(content: bytes, *, length: int | None = None, etag: str = "1") -> Handler:
    """Return what sends an object, and says that it is ``length`` bytes long."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"ETag": f'"{etag}"'})
        response.content_length = len(content) if length is None else length
        await response.prepare(request)
        await response.write(content)
        if length is not None and request.transport:
            request.transport.close()
        return response

    return answer


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def expected(**fields: Any) -> Object:
    return Object(**{"key": "key", "etag": "1", "size": 4, **fields})


async def test_a_truncated_object_is_fetched_again(
    fake: FakeObjectServer, store: ObjectStore, tmp_path: Path
) -> None:
    fake.answer = first(sending(b"ab", length=4), sending(b"abcd"))

    await store.read("key", tmp_path / "out", limit=10, expect=expected())

    assert (tmp_path / "out").read_bytes() == b"abcd"
    assert len(fake.asked) == 2


async def test_an_object_that_is_always_truncated_leaves_nothing(
    fake: FakeObjectServer, store: ObjectStore, tmp_path: Path
) -> None:
    fake.answer = sending(b"ab", length=4)

    with pytest.raises(ObjectStoreError, match="before the response was complete"):
        await store.read("key", tmp_path / "out", limit=10, expect=expected())

    assert files(tmp_path) == []


@pytest.mark.parametrize("answer", [sending(b"abc"), sending(b"abcde"), sending(b"abcd", etag="2")])
async def test_another_object_than_listed_is_refused_where_the_server_ignores_conditions(
    fake: FakeObjectServer, store: ObjectStore, tmp_path: Path, answer: Handler
) -> None:
    fake.answer = answer

    with pytest.raises(ObjectChangedError):
        await store.read("key", tmp_path / "out", limit=10, expect=expected())

    assert not (tmp_path / "out").exists()


async def test_a_full_disk_is_not_blamed_on_the_server(
    fake: FakeObjectServer, store: ObjectStore, tmp_path: Path
) -> None:
    fake.answer = sending(b"abcd")

    with pytest.raises(Exception, match="cannot write what was read") as caught:
        await store.read("key", tmp_path / "not-there" / "out", limit=10)

    assert getattr(caught.value, "reason", "") == "StorageOperationFailed"


async def test_a_cancelled_read_leaves_nothing(
    fake: FakeObjectServer, store: ObjectStore, tmp_path: Path
) -> None:
    began = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"ETag": '"1"'})
        await response.prepare(request)
        await response.write(b"x" * (1 << 20))
        began.set()
        await asyncio.sleep(60)
        return response

    fake.answer = slow
    reading = asyncio.create_task(store.read("key", tmp_path / "out", limit=1 << 30))
    await began.wait()
    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading
    assert files(tmp_path) == []


async def test_a_server_that_breaks_off_is_told() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(rude, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        place = Place(
            provider="generic", endpoint=f"127.0.0.1:{port}", bucket="bucket", plain_http=True
        )
        async with ObjectStore(place, timeout=5) as other:
            with pytest.raises(ObjectStoreError, match="before the response was complete"):
                await listed(other)


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]"])
async def test_metadata_service_is_neither_a_server_nor_a_proxy(host: str) -> None:
    server = Place(provider="generic", endpoint=host, bucket="latest", plain_http=True)
    through = replace(server, endpoint="s3.example.com", proxy=Proxy(address=f"http://{host}:80"))

    for place in (server, through):
        async with ObjectStore(place, timeout=5) as store:
            with pytest.raises(ObjectStoreError, match="metadata service"):
                await listed(store)
