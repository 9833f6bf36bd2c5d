"""The store is asked when something changed, at the end of a retention, and never without end."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apiserver.artifacts import surveying
from apiserver.artifacts.surveying import Remembered, Survey
from toolkit.artifact.index import Entry, Index
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError

OWNER = Owner(kind="GitRepository", namespace="apps", name="web")
BODY = b'{"backend":"local","artifacts":[{"file":"a","digest":"sha256:1","size":1,"modified":0}]}'


class Shelf:
    """A catalog and the artifact server that it asks."""

    def __init__(self) -> None:
        self.url = ""
        self.found: list[tuple[Owner, Index]] = []
        self.heard = asyncio.Event()
        self.looked = asyncio.Event()
        self.asked: list[tuple[str, str]] = []
        self.answers: list[web.StreamResponse] = []
        self.refusal: TransientError | None = None

    def address(self, owner: Owner) -> str:
        del owner
        self.looked.set()
        return self.url

    def indexed(self, owner: Owner, index: Index) -> None:
        self.found.append((owner, index))
        self.heard.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, request.headers["Authorization"]))
        return self.answers.pop(0) if self.answers else web.Response(body=BODY)

    async def token(self) -> str:
        if self.refusal:
            refusal, self.refusal = self.refusal, None
            raise refusal
        return "abc"


@pytest.fixture
async def shelf() -> AsyncIterator[Shelf]:
    shelf = Shelf()
    app = web.Application()
    app.router.add_get("/{path:.*}", shelf.answer)
    async with TestServer(app) as server:
        shelf.url = f"http://{server.host}:{server.port}/gitrepository/apps/web/a.tar.gz"
        yield shelf


@pytest.fixture
async def survey(shelf: Shelf) -> AsyncIterator[Survey]:
    async with aiohttp.ClientSession() as session:
        survey = Survey(session=lambda: session, token=shelf.token)
        task = asyncio.create_task(survey.run(shelf))
        yield survey
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_index_is_asked_for_with_a_token(shelf: Shelf, survey: Survey) -> None:
    survey.look(OWNER)
    await shelf.heard.wait()

    assert shelf.asked == [("/gitrepository/apps/web/", "Bearer abc")]
    ((owner, index),) = shelf.found
    assert owner == OWNER
    assert index.artifacts[0].digest == "sha256:1"


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=503),
        web.Response(status=302, headers={"Location": "http://evil.example/"}),
        web.Response(body=b"[]"),
        web.Response(body=b" " * (5 << 20)),
    ],
    ids=["away", "redirect", "nonsense", "endless"],
)
async def test_what_is_no_answer_is_asked_for_again(
    shelf: Shelf, survey: Survey, answer: web.Response
) -> None:
    shelf.answers.append(answer)

    survey.look(OWNER)
    await shelf.heard.wait()

    assert len(shelf.asked) == 2
    assert len(shelf.found) == 1


async def test_without_a_token_nobody_is_asked_yet(shelf: Shelf, survey: Survey) -> None:
    shelf.refusal = TransientError("no token")

    survey.look(OWNER)
    await shelf.heard.wait()

    assert len(shelf.asked) == 1


async def test_an_object_without_an_artifact_is_not_asked_about(
    shelf: Shelf, survey: Survey
) -> None:
    url, shelf.url = shelf.url, ""
    survey.look(OWNER)
    await shelf.looked.wait()
    shelf.url = url
    survey.look(Owner(kind="Bucket", namespace="apps", name="data"))
    await shelf.heard.wait()

    assert [path for path, _ in shelf.asked] == ["/bucket/apps/data/"]


async def test_a_token_is_asked_for_once_a_minute() -> None:
    fetched: list[str] = []
    clock = [0.0]

    async def fetch() -> str:
        fetched.append(f"token-{len(fetched)}")
        return fetched[-1]

    token = Remembered(fetch, now=lambda: clock[0])

    assert {await token(), await token()} == {"token-0"}
    clock[0] = 61.0
    assert await token() == "token-1"


@pytest.mark.parametrize(
    ("expires", "shortest", "longest"),
    [
        (None, 3200, 4000),
        (1_060.0, 54, 66),
        (1_001.0, 13, 17),
        (900.0, 270, 330),
        (99_999.0, 3200, 4000),
    ],
)
def test_the_next_look_is_when_something_ends(
    expires: float | None, shortest: float, longest: float
) -> None:
    entry = Entry(file="a", digest="sha256:1", size=1, modified=0.0, expires=expires)

    pause = surveying._pause(Index(artifacts=(entry,)), now=1_000.0)

    assert shortest <= pause <= longest
