"""The same promises at every real server: S3, Google Cloud Storage, Azure Blob Storage."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.objectservers import AzureServer, S3Server
from toolkit.remote.objectstore.objectstore import (
    Anonymous,
    AzureKey,
    BucketNotFoundError,
    Object,
    ObjectChangedError,
    ObjectNotFoundError,
    ObjectStore,
    ObjectStoreError,
    Place,
    S3Keys,
)

ODD = (
    "a b+c%41.txt",
    "ümlaut/日本.yaml",
    "q?&=#'(1)*~!@,;:$",
    "dots/..y/...",
    'quote".yaml',
    "<tag>&amp;.yaml",
    "UPPER",
    "upper",
    "-dash",
    "%2e%2e",
)


async def put(store: ObjectStore, keys: Iterable[str]) -> None:
    gate = asyncio.Semaphore(32)

    async def one(key: str) -> None:
        async with gate:
            await store.write_bytes(key, key.encode())

    async with asyncio.TaskGroup() as group:
        for key in keys:
            group.create_task(one(key))


async def listed(store: ObjectStore, prefix: str = "") -> dict[str, Object]:
    return {found.key: found async for found in store.list(prefix)}


async def test_a_long_listing_is_complete(store: ObjectStore) -> None:
    keys = {f"dir{number % 7}/object-{number:04}" for number in range(1500)}
    await put(store, keys)

    found = await listed(store)

    assert found.keys() == keys
    assert all(one.etag and one.size == len(key) for key, one in found.items())


async def test_odd_keys_come_back_as_they_are(store: ObjectStore, tmp_path: Path) -> None:
    await put(store, ODD)

    found = await listed(store)
    read = {}
    for place, key in enumerate(ODD):
        await store.read(key, tmp_path / str(place), limit=100, expect=found[key])
        read[key] = (tmp_path / str(place)).read_text()

    assert found.keys() == set(ODD)
    assert read == {key: key for key in ODD}


async def test_a_prefix_is_text_and_not_a_directory(store: ObjectStore) -> None:
    await put(store, ("app/x", "app-y/z", "apq", "other"))

    found = await listed(store, "app")

    assert found.keys() == {"app/x", "app-y/z"}


async def test_a_file_is_written_and_read_whole(store: ObjectStore, tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    (tmp_path / "in").write_bytes(content)

    written = await store.write("large", tmp_path / "in")
    size = await store.read("large", tmp_path / "out", limit=len(content))

    assert size == written.size == len(content)
    assert (tmp_path / "out").read_bytes() == content
    assert (await store.head("large")).etag == written.etag


async def test_an_empty_object_is_read(store: ObjectStore, tmp_path: Path) -> None:
    await store.write_bytes("empty", b"")

    assert await store.read("empty", tmp_path / "out", limit=0) == 0
    assert (tmp_path / "out").read_bytes() == b""


async def test_ranges_are_read(store: ObjectStore) -> None:
    await store.write_bytes("digits", b"0123456789")

    middle = [chunk async for chunk in store.read_range("digits", 3, 4)]

    assert b"".join(middle) == b"3456"


async def test_an_object_that_changed_is_not_read(store: ObjectStore, tmp_path: Path) -> None:
    await store.write_bytes("key", b"old")
    before = (await listed(store))["key"]
    await store.write_bytes("key", b"new")

    with pytest.raises(ObjectChangedError, match="key"):
        await store.read("key", tmp_path / "out", limit=100, expect=before)

    assert not (tmp_path / "out").exists()


async def test_writes_obey_their_conditions(store: ObjectStore) -> None:
    first = await store.write_bytes("lock", b"1", if_absent=True)

    with pytest.raises(ObjectChangedError):
        await store.write_bytes("lock", b"2", if_absent=True)
    second = await store.write_bytes("lock", b"22", if_match=first)
    with pytest.raises(ObjectChangedError):
        await store.write_bytes("lock", b"3", if_match=first)

    assert (await listed(store))["lock"].size == 2
    assert second.etag != first.etag


async def test_an_object_larger_than_allowed_leaves_nothing(
    store: ObjectStore, tmp_path: Path
) -> None:
    await store.write_bytes("big", b"x" * 1000)

    with pytest.raises(ObjectStoreError, match="larger than 999 bytes"):
        await store.read("big", tmp_path / "out", limit=999)

    assert not (tmp_path / "out").exists()


async def test_a_missing_object_is_told_from_a_missing_bucket(
    store: ObjectStore, place: Place, tmp_path: Path
) -> None:
    with pytest.raises(ObjectNotFoundError, match="'nothing'"):
        await store.read("nothing", tmp_path / "out", limit=1)
    with pytest.raises(ObjectNotFoundError):
        await store.head("nothing")
    async with ObjectStore(replace(place, bucket="tests-nowhere")) as other:
        with pytest.raises(BucketNotFoundError, match="bucket 'tests-nowhere' not found"):
            await listed(other)


async def test_deleted_objects_are_gone_and_deleting_again_is_fine(store: ObjectStore) -> None:
    await put(store, ("a", "b", "c/d"))

    await store.delete(["a", "c/d", "never-was"])
    await store.delete(["a"])

    assert (await listed(store)).keys() == {"b"}


async def test_a_wrong_s3_key_is_refused_without_telling_it(s3: S3Server) -> None:
    place = await s3.place()
    wrong = S3Keys(access_key="penstock", secret_key="a wrong secret")

    async with ObjectStore(replace(place, credentials=wrong)) as store:
        with pytest.raises(ObjectStoreError, match="403 SignatureDoesNotMatch") as caught:
            await listed(store)

    assert "wrong secret" not in str(caught.value)
    assert caught.value.status == 403


async def test_nobody_lists_a_private_s3_bucket(s3: S3Server) -> None:
    place = await s3.place()

    async with ObjectStore(replace(place, credentials=Anonymous())) as store:
        with pytest.raises(ObjectStoreError, match="403 AccessDenied"):
            await listed(store)


async def test_a_folder_marker_is_listed_as_what_it_is(s3: S3Server) -> None:
    place = await s3.place()
    async with ObjectStore(place) as store:
        await store.write_bytes("folder/", b"")
        await store.write_bytes("folder/file", b"1")

        assert (await listed(store)).keys() == {"folder/", "folder/file"}


async def test_a_wrong_azure_key_is_refused_without_telling_it(azure: AzureServer) -> None:
    place = await azure.place()
    wrong = AzureKey(key="d3Jvbmc=")

    async with ObjectStore(replace(place, credentials=wrong)) as store:
        with pytest.raises(ObjectStoreError, match="403 AuthorizationFailure") as caught:
            await listed(store)

    assert "d3Jvbmc" not in str(caught.value)
