"""Who is answered, when, and how refusals are told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from yarl import URL

from controllers.planning.plans import Plan
from controllers.planning.revisions import UnknownRevisionError
from controllers.planning.server import AUDIENCE, PlanServer
from crds import KUSTOMIZATION
from crds.kustomize import Kustomization, KustomizationSpec
from crds.meta import ObjectMeta
from tests.fakes.strangers import Stranger
from tests.fakes.strangers import served as serving
from toolkit.artifact.access import Access
from toolkit.errors import (
    AccessDeniedError,
    PenstockError,
    StalledError,
    TransientError,
    WaitingError,
)
from toolkit.kube import errors
from toolkit.net.connections import Limits
from toolkit.objects import Json, ObjectKey

APP = Kustomization(
    metadata=ObjectMeta(name="app", namespace="shop"),
    spec=KustomizationSpec(interval="1m", prune=True),
)
VAULT = Kustomization(
    metadata=ObjectMeta(name="vault", namespace="bank"),
    spec=KustomizationSpec(interval="1m", prune=True),
)


class Api:
    """Knows one token for our audience, and what its owner may do."""

    def __init__(self) -> None:
        self.reviews: list[Json] = []
        self.allowed = True

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        assert method == "POST"
        if path.endswith("tokenreviews"):
            known = body["spec"] == {"token": "good", "audiences": [AUDIENCE]}
            user = {"username": "system:serviceaccount:penstock-system:penstock-apiserver"}
            audiences = [AUDIENCE] if known else []
            return {"status": {"authenticated": known, "audiences": audiences, "user": user}}
        self.reviews.append(body["spec"]["resourceAttributes"])
        return {"status": {"allowed": self.allowed}}


class Planner:
    """Answers at once, fails, or waits until it is let go."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.most = 0
        self.now = 0
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.go.set()
        self._failure = failure

    async def plan(self, obj: Kustomization, revision: str = "") -> Plan:
        self.asked.append(f"{obj.metadata.name}@{revision}")
        self.now += 1
        self.begun.set()
        self.most = max(self.most, self.now)
        try:
            await self.go.wait()
        finally:
            self.now -= 1
        if self._failure:
            raise self._failure
        return Plan(revision="r", unchanged=1)


@asynccontextmanager
async def served(planner: Any, api: Api, *, prefix: str = "") -> AsyncIterator[Any]:
    def lookup(key: ObjectKey) -> Kustomization | None:
        return {ObjectKey("shop", "app"): APP, ObjectKey("bank", "vault"): VAULT}.get(key)

    access = Access(api, audience=AUDIENCE)
    server = PlanServer(planner, kind=KUSTOMIZATION, access=access, lookup=lookup, prefix=prefix)
    async with TestServer(server.application()) as running, aiohttp.ClientSession() as session:

        async def ask(path: str = "/plan/shop/app", bearer: str = "good", **query: str) -> Any:
            headers = {"Authorization": f"Bearer {bearer}"}
            url = URL(f"{running.make_url('')}".rstrip("/") + path, encoded=True)
            async with session.get(url, params=query, headers=headers) as response:
                return response.status, await response.text()

        yield ask


async def test_the_right_is_asked_for_as_a_subresource_of_the_inventory() -> None:
    api, planner = Api(), Planner()
    async with served(planner, api) as ask:
        status, body = await ask(revision="r1")

    assert (status, body) == (200, '{"revision":"r","unchanged":1,"changes":[]}')
    assert planner.asked == ["app@r1"]
    assert api.reviews == [
        {
            "group": "gitops.penstock.dev",
            "resource": "inventories",
            "subresource": "plan",
            "verb": "get",
            "namespace": "shop",
            "name": "app",
        }
    ]


async def test_the_right_names_the_inventory_as_it_is_served() -> None:
    api = Api()
    async with served(Planner(), api, prefix="helmrelease:") as ask:
        status, _ = await ask()

    assert (status, api.reviews[0]["name"]) == (200, "helmrelease:app")


async def test_nobody_without_the_right_reaches_the_planner() -> None:
    api, planner = Api(), Planner()
    api.allowed = False
    async with served(planner, api) as ask:
        answers = [
            (await ask())[0],
            (await ask("/plan/shop/missing"))[0],
            (await ask(bearer="bad"))[0],
        ]

    assert (answers, planner.asked) == ([403, 403, 401], [])


@pytest.mark.parametrize("name", ["..%2f..%2fapp", "%2e%2e", "APP", "a%00b", "app%2fstatus", "-"])
@pytest.mark.parametrize("where", ["/plan/shop/{}", "/plan/{}/app"])
async def test_paths_that_name_no_object_lead_nowhere(where: str, name: str) -> None:
    api, planner = Api(), Planner()
    async with served(planner, api) as ask:
        status, _ = await ask(where.format(name))

    assert status == 404
    assert (api.reviews, planner.asked) == ([], [])


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (UnknownRevisionError("not stored"), 404),
        (WaitingError("no artifact yet"), 409),
        (AccessDeniedError("a policy forbids it"), 422),
        (StalledError("wrong spec"), 422),
        (TransientError("missing.yaml: no such file", reason="BuildFailed"), 422),
        (errors.UnreachableError("the other cluster is away"), 503),
        (errors.TooManyRequestsError("slow down"), 503),
    ],
)
async def test_failures_have_the_status_of_their_kind(failure: PenstockError, status: int) -> None:
    async with served(Planner(failure), Api()) as ask:
        found, body = await ask()

    assert found == status
    assert json.loads(body) == {"reason": failure.reason, "message": str(failure)}


async def test_two_plans_are_made_at_a_time_and_a_crowd_is_sent_away() -> None:
    planner = Planner()
    planner.go.clear()
    async with served(planner, Api()) as ask:
        await ask("/plan/shop/missing")  # so that the answers of RBAC are known
        asked = [asyncio.create_task(ask()) for _ in range(20)]
        done, waiting = await asyncio.wait(asked, timeout=10, return_when="FIRST_COMPLETED")
        while len(done) < 6:
            more, waiting = await asyncio.wait(waiting, timeout=10, return_when="FIRST_COMPLETED")
            done |= more
        planner.go.set()
        rest = await asyncio.gather(*waiting)

    assert [task.result()[0] for task in done] == [429] * 6
    assert [status for status, _ in rest] == [200] * 14
    assert planner.most == 2


async def test_slow_builds_of_a_namespace_hold_up_no_other() -> None:
    planner = Planner()
    planner.go.clear()
    async with served(planner, Api()) as ask:
        slow = [asyncio.create_task(ask()) for _ in range(10)]
        while planner.now < 2:
            await planner.begun.wait()
            planner.begun.clear()

        quick = asyncio.create_task(ask("/plan/bank/vault"))
        async with asyncio.timeout(10):
            while "vault@" not in planner.asked:
                await planner.begun.wait()
                planner.begun.clear()
        assert planner.now == 3
        planner.go.set()

        answers = await asyncio.gather(quick, *slow)

    assert [status for status, _ in answers] == [200] * 11


async def test_strangers_keep_no_plan_from_being_made() -> None:
    planner = Planner()
    planner.go.clear()
    access = Access(Api(), audience=AUDIENCE)
    server = PlanServer(planner, kind=KUSTOMIZATION, access=access, lookup=lambda _: APP)
    limits = Limits(connections=4, request_seconds=0.3)
    async with serving(server.application(), limits) as port, aiohttp.ClientSession() as session:

        async def ask() -> int:
            url, headers = (
                f"http://127.0.0.1:{port}/plan/shop/app",
                {"Authorization": "Bearer good"},
            )
            async with session.get(url, headers=headers) as response:
                return response.status

        first = asyncio.create_task(ask())
        await planner.begun.wait()
        strangers = [await Stranger.open(port) for _ in range(12)]
        for each in strangers:
            await each.ended()
            await each.close()
        planner.go.set()

        assert (await first, await ask()) == (200, 200)
