"""Who may list sources may see what is stored for them; nobody else learns a name."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.fakes.reviews import Reviews
from toolkit.artifact import index, server
from toolkit.artifact.about import Backend, Kept
from toolkit.artifact.access import AUDIENCE, Access
from toolkit.artifact.index import Indexes
from toolkit.artifact.store import Owner, Readable
from toolkit.errors import TransientError

HERE = "/gitrepository/apps/web/"
TOKEN = {"Authorization": "Bearer abc.def"}


class Shelf:
    """A store with one artifact of everybody's."""

    def __init__(self) -> None:
        self.asked: list[Owner] = []
        self.error: TransientError | None = None

    @property
    def backend(self) -> Backend:
        return "bucket"

    async def kept(self, owner: Owner) -> tuple[Kept, ...]:
        self.asked.append(owner)
        if self.error:
            raise self.error
        return (
            Kept(
                file="abc.tar.gz",
                digest="sha256:1",
                size=3,
                modified=7.0,
                revision="main@sha1:abc",
                metadata={"a": "b"},
            ),
        )

    async def open(self, path: str) -> Readable | None:
        del path
        return None


@pytest.fixture
def reviews() -> Reviews:
    reviews = Reviews()
    reviews.audiences = [index.AUDIENCE]
    return reviews


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def client(reviews: Reviews, shelf: Shelf) -> AsyncIterator[TestClient[Any, Any]]:
    indexes = Indexes(shelf, access=Access(reviews, audience=index.AUDIENCE))
    async with TestClient(TestServer(server.application(shelf, indexes=indexes))) as client:
        yield client


async def status(client: TestClient[Any, Any], path: str, **headers: str) -> int:
    async with client.get(path, headers=headers) as response:
        return response.status


async def test_an_index_tells_what_is_stored(
    client: TestClient[Any, Any], reviews: Reviews
) -> None:
    async with client.get(HERE, headers=TOKEN) as response:
        told = await response.json()

    assert told == {
        "backend": "bucket",
        "artifacts": [
            {
                "file": "abc.tar.gz",
                "digest": "sha256:1",
                "size": 3,
                "modified": 7.0,
                "revision": "main@sha1:abc",
                "metadata": {"a": "b"},
            }
        ],
    }
    assert reviews.asked[0]["spec"]["audiences"] == [index.AUDIENCE]
    assert reviews.asked[1]["spec"]["resourceAttributes"] == {
        "group": "source.toolkit.fluxcd.io",
        "resource": "gitrepositories",
        "subresource": "",
        "verb": "list",
        "namespace": "apps",
        "name": "",
    }


async def test_nobody_is_told_without_a_token(client: TestClient[Any, Any], shelf: Shelf) -> None:
    assert await status(client, HERE) == 401
    assert shelf.asked == []


@pytest.mark.parametrize("audiences", [[AUDIENCE], [], None])
async def test_a_token_for_something_else_tells_nothing(
    client: TestClient[Any, Any], reviews: Reviews, shelf: Shelf, audiences: list[str] | None
) -> None:
    reviews.audiences = audiences

    assert await status(client, HERE, **TOKEN) == 401
    assert shelf.asked == []


async def test_who_may_not_list_sources_is_told_nothing(
    client: TestClient[Any, Any], reviews: Reviews, shelf: Shelf
) -> None:
    reviews.allowed = False

    assert await status(client, HERE, **TOKEN) == 403
    assert shelf.asked == []


@pytest.mark.parametrize(
    "path",
    ["/secret/apps/web/", "/gitrepository/.scratch-1/web/", "/gitrepository/%2e%2e%2fx/web/"],
)
async def test_only_objects_have_an_index(
    client: TestClient[Any, Any], shelf: Shelf, path: str
) -> None:
    assert await status(client, path, **TOKEN) in {400, 404}
    assert shelf.asked == []


async def test_a_store_that_fails_is_worth_another_try(
    client: TestClient[Any, Any], shelf: Shelf
) -> None:
    shelf.error = TransientError("the bucket does not answer")

    assert await status(client, HERE, **TOKEN) == 503


async def test_files_still_need_no_token(client: TestClient[Any, Any], reviews: Reviews) -> None:
    assert await status(client, f"{HERE}abc.tar.gz") == 404
    assert reviews.asked == []
