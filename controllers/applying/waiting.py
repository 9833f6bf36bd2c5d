"""Wait for the health of applied objects, without occupying a worker.

A wait begins with a check. Then the watches continue it, and start a reconciliation when the
verdict is final. The controller of each kind decides what a verdict means.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controllers.applying.clusters import Cluster
from toolkit.apply import bounded
from toolkit.apply.order import Identity
from toolkit.apply.wait import Verdict
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import ObjectKey, ObjectRef

_STALLED: Final = "failed early due to stalled resources"
_READING: Final = 4
_LOOK_AGAIN_SECONDS: Final = 2.0
"""The delay after which an unwatchable kind is noticed, and the interval at which it is polled."""


class HealthCheckError(TransientError):
    """Applied objects failed, or did not become healthy in time."""

    default_reason = "HealthCheckFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The objects to wait for, and the timeout in seconds.

    - ``applied`` are all objects of the same apply. The labelled watches show only these.
    - ``may_vanish`` are objects that delete themselves, such as Jobs with a TTL.
    - ``fail_fast``: one failed object ends the wait.
    """

    awaited: tuple[ObjectRef, ...]
    applied: frozenset[Identity]
    may_vanish: frozenset[Identity]
    timeout: float
    fail_fast: bool


async def require_access(
    client: Client, refs: Sequence[ObjectRef], applied: Iterable[ObjectRef]
) -> None:
    """Require that the account may read the awaited objects that it did not apply.

    The watches show objects of all tenants, and CEL expressions can read any field. Without this
    check, health checks could disclose Secrets of other tenants.

    Raises:
        HealthCheckError: the account may not read an object, or the read fails.
    """
    known = {ref.identity for ref in applied}
    foreign = [ref for ref in refs if ref.identity not in known]

    async def read(ref: ObjectRef) -> None:
        with contextlib.suppress(NotFoundError):
            await client.get(ref.gvk, ref.name, ref.namespace)

    results = await bounded.each(foreign, read, limit=_READING)
    for ref, result in zip(foreign, results, strict=True):
        if isinstance(result, ApiError):
            raise HealthCheckError(f"health check of {ref}: {result}") from result


def verdict(cluster: Cluster, key: ObjectKey, wait: Wait) -> Verdict:
    """Return the verdict of an applier's wait; begin a wait if there is none."""
    unwatched = cluster.live.unwatched(key)
    cluster.live.observe(
        key,
        [ref for ref in wait.awaited if ref.gvk in unwatched or ref.identity not in wait.applied],
    )
    found = cluster.waits.verdict(key)
    if found is not None:
        return found
    return cluster.waits.begin(
        key,
        wait.awaited,
        timeout=wait.timeout,
        may_vanish=wait.may_vanish,
        fail_fast=wait.fail_fast,
    )


def look_again(cluster: Cluster, awaited: Sequence[ObjectRef]) -> float | None:
    """Return the seconds until the next check; None if the watches start a reconciliation."""
    return None if all(cluster.live.current(ref) for ref in awaited) else _LOOK_AGAIN_SECONDS


def end(cluster: Cluster, key: ObjectKey) -> None:
    """End the wait of an applier, when its verdict was read or is no longer needed."""
    cluster.waits.cancel(key)
    cluster.live.observe(key, ())


def told(failed: Verdict) -> str:
    """Return the reason of a failed wait, worded as in Flux."""
    why = "timeout waiting for" if failed.state == "timeout" else _STALLED
    return f"{why}: [{failed}]"
