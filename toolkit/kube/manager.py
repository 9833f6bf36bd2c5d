"""The manager: starts the parts of a process, reports its health, and stops the parts in order.

Informers, services and the HTTP endpoints run in every replica; controllers and other elected parts
run only under their lease. SIGTERM and SIGINT stop the manager: controllers finish their
reconciliations, leases are released, then the other parts end. If a lease is lost or any part
fails, the process ends with an error. Resources of the parts are closed last, even after an error,
and even if the manager never ran.
"""

import asyncio
import functools
import gc
import logging
import os
import signal
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Protocol

import prometheus_client
from aiohttp import web

from toolkit import telemetry
from toolkit.kube import caches, config, leaderelection
from toolkit.kube.client import Client
from toolkit.kube.options import Options
from toolkit.native import heap
from toolkit.net import listening
from toolkit.net.connections import Connections, Limits
from toolkit.remote import systemtrust

logger = logging.getLogger(__name__)

_FILL_SECONDS: Final = 60.0
_CONNECTIONS: Final = 64
"""Limit per port: a request may take 1 MiB before it is refused, and clients need no more."""
_THREADS: Final = 64
_THREADS_EACH: Final = 16
"""Threads for blocking work in all, and at least so many for each concurrent reconciliation.

A namespace has at most ``--concurrent`` reconciliations of a kind, so it never holds all threads.
asyncio has only four more than the machine has cores. They start when they are needed.
"""
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Work = Callable[[], Awaitable[None]]


class Cache(caches.Cache, Protocol):
    """An informer."""

    async def run(self) -> None:
        """Follow the server until cancelled."""


class ElectedWork(Protocol):
    """A controller."""

    @property
    def informer(self) -> Any:
        """Return the cache that it works from."""

    async def run(self) -> None:
        """Work until cancelled or stopped."""

    async def stop(self) -> None:
        """Finish work in progress."""


class Manager:
    """Runs the parts of one process. Add the parts, then call ``run``."""

    @classmethod
    @asynccontextmanager
    async def open(cls, options: Options) -> AsyncIterator["Manager"]:
        """Set logging up, connect to the cluster, and close everything at the end."""
        telemetry.configure_logging(options.log_level, options.log_encoding)
        threads = max(_THREADS, _THREADS_EACH * options.concurrent)
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(threads, thread_name_prefix="blocking")
        )
        systemtrust.defer()
        cluster = await asyncio.to_thread(config.from_environment, options.kubeconfig)
        client = Client.open(cluster, qps=options.kube_api_qps, burst=options.kube_api_burst)
        manager = cls(options, client)
        async with client, manager.until_end:
            yield manager

    def __init__(self, options: Options, client: Client) -> None:
        self.options = options
        self.client = client
        self.namespace = options.runtime_namespace or client.namespace
        self.identity = f"{os.uname().nodename}_{uuid.uuid4()}"
        self.until_end = AsyncExitStack()
        """Shared resources of the parts are opened here, and closed when all work has ended."""
        self._caches: list[Cache] = []
        self._services: list[Work] = []
        self._controllers: list[ElectedWork] = []
        self._farewells: list[Work] = []
        self._elected: defaultdict[str, list[Work]] = defaultdict(list)
        self._stop = asyncio.Event()

    def add_informer(self, informer: Cache) -> None:
        """Run an informer and count it for readiness; the same one may be added twice."""
        if all(known is not informer for known in self._caches):
            self._caches.append(informer)

    def add_service(self, run: Work) -> None:
        """Run something in every replica; it is cancelled last."""
        self._services.append(run)

    def add_elected(self, run: Work, *, lease: str) -> None:
        """Run something only while this replica holds ``lease``."""
        self._elected[lease].append(run)

    def add_controller(self, controller: ElectedWork, *, lease: str) -> None:
        """Run a controller under ``lease``, and its informer in every replica.

        The controller starts when the caches of all parts are complete: an object that another
        cache has not listed yet would look as if it were missing.
        """

        async def work() -> None:
            await caches.complete(*self._caches)
            await controller.run()

        self.add_informer(controller.informer)
        self._controllers.append(controller)
        self.add_elected(work, lease=lease)

    def add_farewell(self, run: Work) -> None:
        """Add a function that runs first when the process stops, while all else still runs."""
        self._farewells.append(run)

    @property
    def stopping(self) -> bool:
        """Tell whether the graceful stop has begun."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Begin the graceful stop, as a signal does."""
        self._stop.set()

    async def run(self) -> None:
        """Run everything until a signal.

        Raises:
            ExceptionGroup: a part failed; ``LeaseLostError`` is one way.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            async with asyncio.TaskGroup() as group:
                services = [_start(group, run) for run in self._services]
                followers = [_start(group, cache.run) for cache in self._caches]
                followers += [_start(group, run) for run in self._endpoints()]
                followers.append(_start(group, self._settle_memory))
                followers.append(_start(group, heap.run))
                elected = [
                    _start(group, self._candidate(name, parts))
                    for name, parts in self._elected.items()
                ]
                await self._stop.wait()
                logger.info("stopping")
                await asyncio.gather(
                    *(each.stop() for each in self._controllers),
                    *(finish() for finish in self._farewells),
                )
                for stage in (elected, followers, services):
                    await _end(stage)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _settle_memory(self) -> None:
        """Fill the caches without the cyclic collector, then take them out of its sight.

        With 25,000 objects as dicts a full collection stops the loop for 200 ms (measured), again
        and again while the heap grows.
        """
        gc.disable()
        try:
            async with asyncio.timeout(_FILL_SECONDS):
                await asyncio.gather(*(cache.wait_synced() for cache in self._caches))
        except TimeoutError:
            logger.info("caches are not complete yet")
        finally:
            gc.collect()
            gc.freeze()
            gc.enable()

    def _candidate(self, lease: str, parts: list[Work]) -> Work:
        """Return the work of one lease, with or without an election."""

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    _start(group, part)

        async def candidate() -> None:
            elector = leaderelection.Elector(
                self.client,
                namespace=self.namespace,
                name=self.options.lease(lease),
                identity=self.identity,
                timing=self.options.election,
            )
            await elector.run(work)

        return candidate if self.options.enable_leader_election else work

    def _endpoints(self) -> list[Work]:
        health, metrics = web.Application(), web.Application()
        health.router.add_get("/healthz", _healthy)
        health.router.add_get("/readyz", self._ready)
        metrics.router.add_get("/metrics", answer_metrics)
        addresses = ((self.options.health_addr, health), (self.options.metrics_addr, metrics))
        return [
            functools.partial(serve, app, address)
            for address, app in addresses
            if address not in {"", "0"}
        ]

    async def _ready(self, _: web.Request) -> web.Response:
        """Ready as soon as the caches are complete, whether this replica leads or not."""
        waiting = sum(not cache.synced for cache in self._caches)
        if waiting:
            return web.Response(status=503, text=f"{waiting} caches are not synced")
        return web.Response(text="ok")


async def serve(app: web.Application, address: str, limits: Limits | None = None) -> None:
    """Serve an application on ``host:port`` (Go's notation: ``:8080`` is every interface)."""
    connections = Connections(limits or Limits.fitting(_CONNECTIONS))
    app.middlewares.insert(0, _at_work(connections))
    # Probes must reach this process, so the port is not shared.
    async with listening.on(address, app, connections, shared=False):
        await asyncio.Event().wait()


def _at_work(connections: Connections) -> Callable[..., Awaitable[web.StreamResponse]]:
    @web.middleware
    async def at_work(request: web.Request, handler: listening.Handler) -> web.StreamResponse:
        """Count a request as complete when its body has come.

        Until then its connection may be closed to make room, so that slow bodies hold none.
        """
        request.content.on_eof(lambda: connections.work(request.transport))
        return await handler(request)

    return at_work


def _start(group: asyncio.TaskGroup, run: Work) -> asyncio.Task[None]:
    async def task() -> None:
        await run()

    return group.create_task(task())


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they are through with it; the TaskGroup sees their errors."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def answer_metrics(_: web.Request) -> web.Response:
    """Answer with everything that is measured."""
    # 5,000 series take 40 ms to render: not on the event loop.
    body = await asyncio.to_thread(prometheus_client.generate_latest)
    return web.Response(body=body, headers={"Content-Type": _METRICS_TYPE})
