"""Leader election on a Lease: one replica works, another one is ready to take over.

Times of the other holder are never compared with our clock: a lease is expired when it has not
changed for its duration *as we watched it* (client-go ``leaderelection.go``). The clock is
monotonic. A leader that cannot renew in time stops its work before another replica may start.
"""

import asyncio
import datetime as dt
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from toolkit import telemetry
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, key_of

logger = logging.getLogger(__name__)

LEASE: Final = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
_RELEASE_SECONDS: Final = 5.0


class LeaseLostError(Exception):
    """The lease could not be renewed in time, or another replica holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Flux's defaults, in seconds."""

    lease_duration: float = 35.0
    renew_deadline: float = 30.0
    retry_period: float = 5.0


class Elector:
    """A candidate for one Lease."""

    def __init__(
        self, client: Client, *, namespace: str, name: str, identity: str, timing: Timing
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing
        self._lease: Json = {}
        self._seen = float("-inf")
        self._leading = telemetry.LEADER.labels(name)
        self._leading.set(0)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then do ``work`` while renewing it; release it at the end.

        Raises:
            LeaseLostError: in an ExceptionGroup; ``work`` has been cancelled by then.
        """
        await self._acquire()
        logger.info("leader election won", extra=self._fields())
        self._leading.set(1)
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                await work()
                renewing.cancel()
        finally:
            self._leading.set(0)
            await self._release()

    async def _acquire(self) -> None:
        while not await self._attempt():
            spec = self._lease.get("spec") or {}
            rest = self._seen + float(spec.get("leaseDurationSeconds") or 0) - _now()
            period = self._timing.retry_period * random.uniform(1.0, 1.2)  # noqa: S311 - jitter
            await asyncio.sleep(min(period, rest) if rest > 0 else period)

    async def _renew(self) -> None:
        deadline = _now() + self._timing.renew_deadline
        while True:
            await asyncio.sleep(self._timing.retry_period)
            try:
                async with asyncio.timeout_at(deadline):
                    while not await self._attempt():
                        if self._held_by_other():
                            raise LeaseLostError(f"lease {self._name} was taken over")
                        await asyncio.sleep(self._timing.retry_period / 5)
            except TimeoutError as exc:
                raise LeaseLostError(f"lease {self._name} could not be renewed in time") from exc
            deadline = _now() + self._timing.renew_deadline

    async def _attempt(self) -> bool:
        """Take or renew the lease once; False when that did not work."""
        try:
            if not self._mine():
                await self._look()
            if self._held_by_other():
                return False
            self._lease = await write(self._client, self._wanted())
        except (errors.ConflictError, errors.AlreadyExistsError, errors.NotFoundError):
            self._lease = {}
            return False
        except errors.ApiError as exc:
            logger.warning("lease not written", extra={**self._fields(), "error": str(exc)})
            return False
        self._seen = _now()
        return True

    async def _look(self) -> None:
        try:
            lease = await self._client.get(LEASE, self._name, self._namespace)
        except errors.NotFoundError:
            lease = {}
        if lease.get("spec") != self._lease.get("spec"):
            self._seen = _now()
        self._lease = lease

    async def _release(self) -> None:
        """Give the lease up, so that a successor need not wait for its end."""
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                if not await self._give_up():
                    # A renewal was cut short after the server had taken it: read, then once more.
                    await self._look()
                    await self._give_up()
        except (errors.ApiError, TimeoutError) as exc:
            logger.warning("lease not released", extra={**self._fields(), "error": str(exc)})
        self._lease = {}

    async def _give_up(self) -> bool:
        if not self._mine():
            return True
        spec = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await write(self._client, {**self._lease, "spec": {**spec, "renewTime": timestamp()}})
        except errors.ConflictError:
            return False
        return True

    def _wanted(self) -> Json:
        old = self._lease.get("spec") or {}
        mine = self._mine()
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": self._lease.get("metadata")
            or {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": round(self._timing.lease_duration),
                "acquireTime": old.get("acquireTime") if mine else timestamp(),
                "renewTime": timestamp(),
                "leaseTransitions": int(old.get("leaseTransitions") or 0)
                + (old != {} and not mine),
            },
        }

    def _mine(self) -> bool:
        spec = self._lease.get("spec") or {}
        return bool(spec.get("holderIdentity") == self._identity)

    def _held_by_other(self) -> bool:
        spec = self._lease.get("spec") or {}
        if self._mine() or not spec.get("holderIdentity"):
            return False
        return _now() < self._seen + float(spec.get("leaseDurationSeconds") or 0)

    def _fields(self) -> dict[str, str]:
        return {"lease": f"{self._namespace}/{self._name}", "identity": self._identity}


async def write(client: Client, lease: Json) -> Json:
    """Create a Lease, or replace the version that was read, and return it.

    Raises:
        AlreadyExistsError, ConflictError, NotFoundError: somebody else was faster.
    """
    if not lease["metadata"].get("resourceVersion"):
        return await client.create(lease)
    key = key_of(lease)
    path = (await client.mapper.resource(LEASE)).path(key.name, key.namespace)
    return await client.request("PUT", path, body=lease)


def timestamp() -> str:
    """Return now as a ``MicroTime``: RFC 3339 in UTC with six digits."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _now() -> float:
    return asyncio.get_running_loop().time()
