"""Key rings with the real engine behind them, for what no key opens in this process."""

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from toolkit.decrypt import engine, sops
from toolkit.decrypt.engine import EngineKeys
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.kms.services import KeyServices, Work
from toolkit.decrypt.kms.ways import Access
from toolkit.native import build
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Http
from toolkit.skipped import Skipped

T = TypeVar("T")


class Opening:
    """Runs works as the processes do, without credentials for key services."""

    def __init__(self, run: Callable[..., T], services: KeyServices) -> None:
        self._run = run
        self._services = services

    def open(self, work: Work[T], ring: KeyRing) -> T:
        """Return what a work makes with the keys of the ring."""
        return self._run(self._services.open(work, ring, _nobody, flow="team"))  # type: ignore[return-value]  # a runner's

    def decrypt(self, document: bytes, form: sops.Format, ring: KeyRing) -> bytes:
        """Return a document in clear."""
        return self.open(functools.partial(sops.decrypt, document, form), ring)

    def skipped(self, ring: KeyRing) -> tuple[Skipped, ...]:
        """Return which keys of the ring are of no use."""
        return self._run(self._services.skipped(ring, flow="team"))  # type: ignore[return-value]  # a runner's


@contextmanager
def opening() -> Iterator[Opening]:
    """Run workers until the block ends."""
    build.build()
    with asyncio.Runner() as runner:
        http, pool = runner.run(_start())
        services = KeyServices(Cloud(http, cache=TokenCache()), engine=EngineKeys(pool))
        try:
            yield Opening(runner.run, services)
        finally:
            runner.run(pool.close())
            runner.run(http.__aexit__(None, None, None))


async def _start() -> tuple[Http, engine.WorkerPool]:
    return await Http().__aenter__(), engine.start()


async def _nobody() -> Access:
    return Access(logins=())
