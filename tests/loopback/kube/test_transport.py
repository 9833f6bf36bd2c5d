"""What is sent again to an API server that cannot answer now."""

import pytest
from aiohttp import web

from tests.fakes.serving import serving
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.kube.errors import ApiError

STATUS = {"kind": "Status", "code": 503, "message": "apiserver is shutting down"}


async def answers(method: str, **headers: str) -> int:
    """Return how many requests it takes where the first one comes at the wrong moment."""
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked == 1:
            return web.json_response(STATUS, status=503, headers=headers)
        return web.json_response({})

    async with (
        serving(answer) as port,
        Client.open(ClusterConfig(server=f"http://127.0.0.1:{port}")) as client,
    ):
        await client.request(method, "/api/v1/namespaces/a/configmaps", body={})
    return asked


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_what_a_server_has_not_begun_is_sent_again_when_it_says_so(method: str) -> None:
    assert await answers(method, **{"Retry-After": "0"}) == 2


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_what_it_may_have_begun_is_the_callers(method: str) -> None:
    with pytest.raises(ApiError, match="shutting down") as caught:
        await answers(method)

    assert caught.value.status == 503
