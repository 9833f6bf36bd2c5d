"""The Lease of a ``penstock up``: by it others in the cluster see that its controllers run.

The processes of ``up`` elect no leader. Beside the processes of another ``up``, or of an
installation, both would reconcile every object, and each would write its own artifact addresses.

An ``up`` holds the Lease for as long as it runs, in a namespace that Penstock has made: another
one, and ``penstock install``, look there. As for leader
election, times of the holder are not compared with our clock: a Lease is abandoned when it does not
change for its duration. The state directory in the identity is locked by its ``up``, so that one
that was killed starts again at once.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli import errors
from toolkit.kube import errors as kube_errors
from toolkit.kube import leaderelection
from toolkit.kube.client import Client
from toolkit.kube.leaderelection import LEASE
from toolkit.objects import GroupVersionKind, Json, dig, key_of, ref_of

NAME: Final = "penstock-up"
COMPONENT: Final = "app.kubernetes.io/component"
_PLACES: Final = "app.kubernetes.io/part-of=penstock"
"""The namespaces that ``up`` makes. A Lease elsewhere may be a tenant's and counts for nothing."""
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_LOOK: Final = 1.0
_LONGEST: Final = 60.0
"""Seconds that a Lease is watched at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds after which a Lease that does not change is abandoned, and between renewals."""

    duration: float = 15.0
    renewal: float = 4.0


DEFAULT: Final = Timing()


def identity(state: Path) -> str:
    """Return how an ``up`` of this machine is named in its Lease."""
    return f"{socket.gethostname()}:{state.absolute()}"


async def holder(api: Client, *, mine: str, report: Callable[[str], None]) -> str:
    """Return the identity of another ``up`` that runs; an empty string if none does.

    A Lease that may be abandoned is watched for its duration.
    """
    for lease in await _of_others(api, mine):
        if await _changes(api, lease, report):
            return holder_of(lease)
    return ""


async def require_no_other(api: Client, *, mine: str = "", report: Callable[[str], None]) -> None:
    """Require that no other ``penstock up`` runs against this cluster; delete abandoned Leases.

    Raises:
        UsageError: one does.
    """
    for lease in await _of_others(api, mine):
        if await _changes(api, lease, report):
            raise _taken(holder_of(lease))
        ref, uid = ref_of(lease), str(dig(lease, "metadata", "uid", default=""))
        with contextlib.suppress(kube_errors.NotFoundError):
            await api.delete(ref.gvk, ref.name, ref.namespace, uid=uid)


async def _of_others(api: Client, mine: str) -> list[Json]:
    found = []
    for place in await api.list(_NAMESPACE, label_selector=_PLACES):
        with contextlib.suppress(kube_errors.NotFoundError):
            found.append(await api.get(LEASE, NAME, key_of(place).name))
    return [lease for lease in found if holder_of(lease) not in ("", mine)]


def holder_of(lease: Json) -> str:
    """Return who holds a Lease; an empty string if it was released."""
    return str(dig(lease, "spec", "holderIdentity", default=""))


@asynccontextmanager
async def held(
    api: Client, namespace: str, *, mine: str, timing: Timing = DEFAULT
) -> AsyncIterator[None]:
    """Hold the Lease during the block, and release it at the end.

    Raises:
        UsageError: another ``up`` has taken it; the block is cancelled.
    """
    claim = _Claim(api, namespace, mine, timing)
    await claim.take()
    try:
        with errors.ungrouped():
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(claim.keep(), name="lease")
                yield
                renewing.cancel()
    finally:
        await asyncio.shield(claim.release())


class _Claim:
    """One ``up`` and its Lease."""

    def __init__(self, api: Client, namespace: str, mine: str, timing: Timing) -> None:
        self._api, self._namespace, self._mine, self._timing = api, namespace, mine, timing
        self._lease: Json = {}

    async def take(self) -> None:
        """Write our name. A Lease of another was taken since ``require_no_other``."""
        with contextlib.suppress(kube_errors.NotFoundError):
            self._lease = await self._api.get(LEASE, NAME, self._namespace)
        if holder_of(self._lease) not in ("", self._mine):
            raise _taken(holder_of(self._lease))
        try:
            await self._write(self._mine)
        except (kube_errors.ConflictError, kube_errors.AlreadyExistsError) as exc:
            raise _taken(holder_of(await self._api.get(LEASE, NAME, self._namespace))) from exc

    async def keep(self) -> None:
        """Renew until cancelled; an API server that does not answer is asked again."""
        while True:
            await asyncio.sleep(self._timing.renewal)
            with contextlib.suppress(kube_errors.ApiError, TimeoutError):
                await self._renew()

    async def _renew(self) -> None:
        try:
            await self._write(self._mine)
        except (kube_errors.ConflictError, kube_errors.NotFoundError):
            self._lease = {}
            with contextlib.suppress(kube_errors.NotFoundError):
                self._lease = await self._api.get(LEASE, NAME, self._namespace)
            name = holder_of(self._lease)
            if name and name != self._mine:
                raise _taken(name) from None

    async def release(self) -> None:
        """Remove our name, so that a successor need not wait."""
        with contextlib.suppress(kube_errors.ApiError, TimeoutError):
            async with asyncio.timeout(self._timing.renewal):
                await self._write("")

    async def _write(self, name: str) -> None:
        lease: Json = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": self._lease.get("metadata") or _metadata(self._namespace),
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": max(round(self._timing.duration), 1),
                "renewTime": leaderelection.timestamp(),
            },
        }
        self._lease = await leaderelection.write(self._api, lease)


async def _changes(api: Client, lease: Json, report: Callable[[str], None]) -> bool:
    """Tell whether somebody renews a Lease."""
    key, seen = key_of(lease), _spec(lease)
    seconds = min(float(seen.get("leaseDurationSeconds") or DEFAULT.duration), _LONGEST)
    report(f"{named(holder_of(lease))} may still run: waiting up to {seconds:g}s for a sign of it")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while loop.time() < deadline:
        await asyncio.sleep(min(_LOOK, seconds))
        try:
            found = await api.get(LEASE, key.name, key.namespace)
        except kube_errors.NotFoundError:
            return False
        if _spec(found) != seen:
            return bool(holder_of(found))
    return False


def _spec(lease: Json) -> Json:
    spec: Json = dig(lease, "spec", default={})
    return spec


def _taken(name: str) -> errors.UsageError:
    return errors.UsageError(
        f"{named(name)} runs against this cluster, and reconciles the same objects: stop it with "
        "`penstock down` there first"
    )


def named(name: str) -> str:
    """Return an identity for people."""
    host, _, directory = name.partition(":")
    return f"`penstock up` on {host} (state directory {directory})"


def _metadata(namespace: str) -> Json:
    labels = {"app.kubernetes.io/part-of": "penstock", COMPONENT: NAME}
    return {"name": NAME, "namespace": namespace, "labels": labels}
