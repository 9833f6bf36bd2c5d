"""A controller at work on a fake API server, with the steps of a test as its reconciler."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import crds
from crds.source import GitRepository
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from toolkit.kube.client import Client
from toolkit.kube.controller import Controller, ControllerOptions, Outcome, Reconciliation
from toolkit.kube.reconciliation import FINALIZER, Event
from toolkit.objects import ObjectKey

Pass = Reconciliation[GitRepository]
REPOS = "gitrepositories"
KEY = ObjectKey("default", "a")
SPEC = {"url": "https://example.com/a", "interval": "10m"}


class Bench:
    """A controller at work on a fake server; reconcile and finalize are scripts of the test."""

    def __init__(
        self, server: FakeApiServer, client: Client, *, finalizer: str = FINALIZER, **options: Any
    ) -> None:
        self.server = server
        self.events: list[Event] = []
        self.passes: list[frozenset[str]] = []
        self.times: list[float] = []
        self.finalized: list[str] = []
        self.script: Callable[[Pass], Awaitable[Outcome]] = succeed
        self.farewell: Callable[[Pass], Awaitable[None]] = nothing
        settings = {"interval_jitter": 0.0, "concurrent": 2} | options
        self.controller = Controller(
            kind=dataclasses.replace(crds.GIT_REPOSITORY, finalizer=finalizer),
            client=client,
            reconcile=self._reconcile,
            finalize=self._finalize,
            options=ControllerOptions(**settings),
            recorder=self,
            field_manager="gotk-source-controller",
            static=lambda obj: obj.spec.url.startswith("ssh://"),
            held=lambda obj: "example.com/made" not in obj.metadata.labels,
        )

    def emit(self, event: Event) -> None:
        self.events.append(event)

    async def _reconcile(self, rec: Pass) -> Outcome:
        self.passes.append(rec.triggers)
        self.times.append(asyncio.get_running_loop().time())
        return await self.script(rec)

    async def _finalize(self, rec: Pass) -> None:
        await self.farewell(rec)
        self.finalized.append(rec.key.name)

    async def until(self, condition: Callable[[], object]) -> None:
        pause = 0.01
        async with asyncio.timeout(3600):
            while not condition():
                await asyncio.sleep(pause)
                pause = min(pause * 1.3, 5.0)

    async def idle(self) -> None:
        await asyncio.sleep(0.2)

    def put(self, name: str = "a", **meta: Any) -> None:
        self.server.put(REPOS, name, spec=dict(SPEC), metadata=meta)

    @property
    def object(self) -> dict[str, Any]:
        return self.server.objects[(REPOS, "default", "a")]

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.object.get("status", {})
        return status

    def condition(self, type_: str) -> tuple[str, str, str] | None:
        for entry in self.status.get("conditions", []):
            if entry["type"] == type_:
                return entry["status"], entry["reason"], entry["message"]
        return None

    @property
    def status_writes(self) -> int:
        return sum(self.server.count(method, "/status") for method in ("PUT", "PATCH"))

    def fail_status(self, status: int, *, times: int, reason: str = "") -> None:
        """Have the server refuse writes of the status, so many times each way."""
        for method in ("PUT", "PATCH"):
            self.server.fail(method, "/status", status, times=times, reason=reason)


async def succeed(_: Pass) -> Outcome:
    return Outcome(message="fine", requeue_after=600)


async def nothing(_: Pass) -> None:
    return None


def raising(exc: BaseException) -> Callable[[Pass], Awaitable[Outcome]]:
    async def script(_: Pass) -> Outcome:
        raise exc

    return script


def work(
    scenario: Callable[[Bench], Awaitable[None]],
    *,
    stored: Callable[[FakeApiServer], None] = lambda _: None,
    **options: Any,
) -> Bench:
    """Run a controller while the scenario acts; stop it gracefully at the end.

    What is ``stored`` is there before the controller starts.
    """

    async def main() -> Bench:
        server = FakeApiServer()
        stored(server)
        async with server.running() as client:
            bench = Bench(server, client, **options)
            watching = asyncio.create_task(bench.controller.informer.run())
            running = asyncio.create_task(bench.controller.run())
            await bench.controller.informer.wait_synced()
            await bench.idle()
            try:
                await scenario(bench)
            finally:
                await bench.controller.stop()
                watching.cancel()
                await asyncio.wait([watching, running])
            running.result()
        return bench

    return virtualtime.run(main)
