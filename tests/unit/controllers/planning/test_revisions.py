"""Which stored artifact a revision means, and whom that is asked of."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controllers.kustomize.plan import at
from controllers.kustomize.sources import Mount, Sources
from controllers.planning.revisions import Retained, UnknownRevisionError
from crds.meta import Artifact
from toolkit.errors import PenstockError, TransientError
from toolkit.objects import GroupVersionKind, Json, ObjectRef

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
PLACE = "http://status.example/gitrepository/shop/repo"
OLD, NEW = "1" * 64, "2" * 64
MOUNT = Mount(
    path="",
    ref=ObjectRef(GIT, "shop", "repo"),
    artifact=Artifact(
        digest=f"sha256:{NEW}",
        last_update_time="2026-01-01T00:00:00Z",
        path="gitrepository/shop/repo/new.tar.gz",
        revision="main@sha1:new",
        url=f"{PLACE}/new.tar.gz",
    ),
)
CURRENT = Sources(mounts=(MOUNT,))
ENTRIES = [
    {"file": "new.tar.gz", "digest": f"sha256:{NEW}", "size": 2, "modified": 9.0}
    | {"revision": "main@sha1:new"},
    {"file": "old.tar.gz", "digest": f"sha256:{OLD}", "size": 1, "modified": 1.0}
    | {"revision": "main@sha1:old", "metadata": {"signed": "by me"}},
    {"file": "older.tar.gz", "digest": "sha256:" + "3" * 64, "size": 1, "modified": 0.0},
]


@asynccontextmanager
async def retained(answer: Any = None, status: int = 200) -> AsyncIterator[tuple[Retained, Any]]:
    asked: list[tuple[str, str]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, request.headers["Authorization"]))
        body = {"backend": "local", "artifacts": ENTRIES} if answer is None else answer
        headers = {"Location": "/elsewhere"} if status == 302 else {}
        return web.json_response(body, status=status, headers=headers)

    async def token() -> str:
        return "token"

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    async with TestServer(app) as server:
        yield Retained(address=f"127.0.0.1:{server.port}", token=token), asked


@pytest.mark.parametrize("word", ["main@sha1:new", f"sha256:{NEW}", NEW, "new"])
async def test_the_present_revision_needs_no_question(word: str) -> None:
    async with retained() as (store, asked):
        assert await at(CURRENT, word, store) is CURRENT

    assert asked == []


@pytest.mark.parametrize("word", ["main@sha1:old", f"sha256:{OLD}", OLD, "old"])
async def test_an_older_one_is_found_at_our_own_store(word: str) -> None:
    async with retained() as (store, asked):
        (mount,) = (await at(CURRENT, word, store)).mounts

    assert asked == [("/gitrepository/shop/repo/", "Bearer token")]
    artifact = mount.artifact
    assert (artifact.revision, artifact.digest) == ("main@sha1:old", f"sha256:{OLD}")
    assert artifact.url == f"{PLACE}/old.tar.gz"
    assert artifact.metadata == {"signed": "by me"}


@pytest.mark.parametrize("word", ["main@sha1:gone", "", "3" * 64, "main", "sha256:"])
async def test_what_is_not_stored_or_has_no_revision_is_unknown(word: str) -> None:
    async with retained() as (store, _):
        with pytest.raises(UnknownRevisionError, match="there are: main@sha1:new, main@sha1:old"):
            await at(CURRENT, word, store)


async def test_of_several_sources_only_the_present_revision_can_be_planned() -> None:
    several = Sources(mounts=(MOUNT, replace(MOUNT, path="vendor")))
    async with retained() as (store, asked):
        assert await at(several, several.revision, store) is several
        with pytest.raises(UnknownRevisionError, match="several sources"):
            await at(several, "main@sha1:old", store)

    assert asked == []


@pytest.mark.parametrize(
    ("answer", "status"),
    [({}, 401), ({}, 500), ({}, 302), ([], 200), ({"artifacts": [{"file": 1}]}, 200)],
)
async def test_a_store_that_does_not_tell_is_no_answer(answer: Any, status: int) -> None:
    async with retained(answer, status) as (store, asked):
        with pytest.raises(TransientError, match="cannot be found out"):
            await at(CURRENT, "main@sha1:old", store)

    assert len(asked) == 1


async def test_a_file_that_leads_elsewhere_is_refused() -> None:
    entry: Json = {**ENTRIES[1], "file": "../../other/repo/x.tar.gz"}
    async with retained({"artifacts": [entry]}) as (store, _):
        with pytest.raises(PenstockError, match="not valid"):
            await at(CURRENT, "main@sha1:old", store)
