"""What is asked of the controller, and what of its answers is passed on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apiserver.inventories.plans import Plans
from tests.unit.apiserver.inventories.scene import applied
from tests.unit.apiserver.inventories.served import Answer, Known, asked
from toolkit.errors import TransientError

PLAN = {
    "revision": "main@sha1:1",
    "unchanged": 3,
    "changes": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "action": "drifted"}
        | {"differences": [{"action": "changed", "path": "data.v", "before": "1", "after": "2"}]}
    ],
}


@dataclass
class Controller:
    """Answers as a test says, and remembers what it was asked."""

    answer: Callable[[], Awaitable[web.StreamResponse]] | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path_qs, request.headers.get("Authorization", "")))
        return await self.answer() if self.answer else web.json_response(PLAN)


@contextlib.asynccontextmanager
async def plans(
    controller: Controller, *, address: str = "", token: Any = None
) -> AsyncIterator[Plans]:
    async def given() -> str:
        return "token"

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", controller.handle)
    async with TestServer(app) as server:
        known = Known(applied())
        where = address or f"127.0.0.1:{server.port}"
        addresses = {"kustomize-controller": where, "helm-controller": "127.0.0.1:1"}
        made = Plans(known, known, addresses=addresses, token=token or given)
        task = asyncio.create_task(made.run())
        await asyncio.sleep(0)
        try:
            yield made
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _diff(controller: Controller, **settings: Any) -> Answer:
    seconds, name = settings.pop("seconds", 30), settings.pop("name", "app")
    async with (
        plans(controller, **settings) as made,
        asked(made.diff, seconds=seconds, name=name) as ask,
    ):
        return await ask()


def answering(status: int, body: Any = None, **headers: str) -> Controller:
    async def answer() -> web.StreamResponse:
        return web.json_response(
            body or {},
            status=status,
            headers=headers,
            dumps=lambda it: msgspec.json.encode(it).decode(),
        )

    return Controller(answer=answer)


async def test_a_plan_is_asked_for_with_our_token_and_passed_on() -> None:
    controller = Controller()

    found = await _diff(controller)

    assert controller.asked == [("/plan/shop/app", "Bearer token")]
    assert found.status == 200
    assert found.body["kind"] == "InventoryPlan"
    assert found.body["metadata"] == {"name": "app", "namespace": "shop"}
    assert {key: found.body[key] for key in PLAN} == PLAN


async def test_a_revision_is_passed_on_and_needed() -> None:
    controller = Controller()
    async with plans(controller) as made, asked(made.plan) as ask:
        without = await ask()
        odd = await ask(params={"revision": "a\r\nb"})
        found = await ask(params={"revision": "main@sha1:1&x=/../"})

    assert (without.status, odd.status, found.status) == (400, 400, 200)
    assert [path for path, _ in controller.asked] == [
        "/plan/shop/app?revision=main@sha1:1%26x%3D/../"
    ]


@pytest.mark.parametrize(
    ("told", "status", "reason"),
    [
        (404, 404, "NotFound"),
        (409, 409, "Conflict"),
        (422, 422, "Invalid"),
        (429, 429, "TooManyRequests"),
        (401, 503, "ServiceUnavailable"),
        (403, 503, "ServiceUnavailable"),
        (500, 503, "ServiceUnavailable"),
        (302, 503, "ServiceUnavailable"),
    ],
)
async def test_refusals_concern_the_caller_or_us(told: int, status: int, reason: str) -> None:
    found = await _diff(answering(told, {"reason": "R", "message": "why"}))

    assert (found.status, found.body["reason"]) == (status, reason)
    assert "why" in found.body["message"]


async def test_a_redirect_is_not_followed() -> None:
    controller = answering(302, Location="/elsewhere")

    await _diff(controller)

    assert len(controller.asked) == 1


@pytest.mark.parametrize("body", ["nonsense", [], {"revision": 1}, {"unchanged": -1}, "[" * 9000])
async def test_what_is_no_plan_is_not_passed_on(body: Any) -> None:
    found = await _diff(answering(200, body))

    assert (found.status, "not a plan" in found.body["message"]) == (503, True)


async def test_what_the_schema_does_not_know_is_dropped() -> None:
    found = await _diff(answering(200, {**PLAN, "secret": "x", "metadata": {"name": "other"}}))

    assert "secret" not in found.body
    assert found.body["metadata"]["name"] == "app"


async def test_a_plan_that_is_too_long_is_cut_off() -> None:
    async def answer() -> web.StreamResponse:
        return web.Response(body=b" " * (33 << 20))

    found = await _diff(Controller(answer=answer))

    assert found.status == 413


@pytest.mark.parametrize(("length", "status"), [((4 << 20) - 2000, 200), ((4 << 20) + 2000, 413)])
async def test_a_plan_may_have_some_mebibytes(length: int, status: int) -> None:
    change = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "action": "created"}
    size = len(msgspec.json.encode(change)) + 1

    found = await _diff(answering(200, {**PLAN, "changes": [change] * (length // size)}))

    assert found.status == status


async def test_without_a_controller_there_are_no_plans() -> None:
    found = await _diff(Controller(), address="127.0.0.1:1")

    assert found.status == 503
    assert "cannot be reached" in found.body["message"]
    assert "127.0.0.1" not in found.body["message"]


async def test_without_a_token_nobody_is_asked() -> None:
    async def refused() -> str:
        raise TransientError("no token today")

    controller = Controller()

    found = await _diff(controller, token=refused)

    assert (found.status, controller.asked) == (503, [])


async def test_a_controller_that_is_silent_is_not_waited_for() -> None:
    async def answer() -> web.StreamResponse:
        await asyncio.sleep(5)
        return web.Response()

    found = await _diff(Controller(answer=answer), seconds=0.2)

    assert (found.status, "too long" in found.body["message"]) == (503, True)


async def test_an_inventory_that_is_none_is_not_asked_about() -> None:
    controller = Controller()

    found = await _diff(controller, name="../../x")

    assert (found.status, controller.asked) == (404, [])


async def test_a_users_slow_plans_keep_nobody_else_from_theirs() -> None:
    go, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def slow() -> web.StreamResponse:
        waiting.release()
        await go.wait()
        return web.json_response(PLAN)

    async with plans(Controller(slow)) as made, asked(made.diff) as ask:
        crowd = [
            asyncio.create_task(ask(headers={"X-User": f"system:serviceaccount:shop:robot-{n}"}))
            for n in range(20)
        ]
        for _ in range(6):
            await waiting.acquire()

        other = asyncio.create_task(ask(headers={"X-User": "alice"}))
        async with asyncio.timeout(10):
            await waiting.acquire()
        go.set()

        assert (await other).status == 200
        assert {answer.status for answer in await asyncio.gather(*crowd)} == {200}
