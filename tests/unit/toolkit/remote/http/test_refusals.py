"""Answers that are refused, and servers that are left alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.http.http import Endpoint, Http


@asynccontextmanager
async def busy(status: int, retry_after: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve nothing but that status; yield the URL and the paths that were asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers={"Retry-After": retry_after})

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/")), asked


async def refusal(http: Http, url: str) -> HttpError:
    with pytest.raises(HttpError) as caught:
        async with http.request("GET", url, endpoint=Endpoint(plain_http=True), timeout=60):
            pass
    return caught.value


@pytest.mark.parametrize(
    ("status", "retry_after", "times"),
    [
        (404, "", 1),  # not a matter of patience
        (429, "0", 4),  # patience has an end
        (503, "3600", 1),  # and a measure
        (403, "3600", 1),  # as hosting services say it
    ],
)
async def test_server_that_never_answers_is_given_up(
    status: int, retry_after: str, times: int
) -> None:
    async with busy(status, retry_after) as (url, asked), Http() as http:
        error = await refusal(http, url)

    assert f"HTTP {status}" in str(error)
    assert error.status == status
    assert len(asked) == times


@pytest.mark.parametrize(("status", "headers"), [(403, ""), (401, "60")])
async def test_refused_credentials_are_no_matter_of_patience(status: int, headers: str) -> None:
    async with busy(status, headers) as (url, asked), Http() as http:
        assert isinstance(await refusal(http, url), AuthError)
        await refusal(http, url)

    assert len(asked) == 2


async def test_server_that_asked_for_patience_is_left_alone() -> None:
    async with busy(429, "3600") as (url, asked), Http() as http:
        await refusal(http, url)
        error = await refusal(http, url)

    assert "asked for a pause" in str(error)
    assert len(asked) == 1
