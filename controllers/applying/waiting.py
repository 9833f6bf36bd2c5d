"""Waiting for the health of what was applied, without a worker.

A wait begins with a look and goes on in the watches, which start a pass when the verdict is there.
What a verdict means for an object is its kind's.
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
"""How soon it is found out that a kind is not watchable, and then how often it is looked at."""


class HealthCheckError(TransientError):
    """Applied objects failed, or did not become healthy in time."""

    default_reason = "HealthCheckFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The objects whose health counts, and for how long, in seconds.

    ``applied`` are all that were applied with them: the watches by label show no others. Those that
    ``may_vanish`` delete themselves. With ``fail_fast`` one failed object ends the wait.
    """

    awaited: tuple[ObjectRef, ...]
    applied: frozenset[Identity]
    may_vanish: frozenset[Identity]
    timeout: float
    fail_fast: bool


async def require_access(
    client: Client, refs: Sequence[ObjectRef], applied: Iterable[ObjectRef]
) -> None:
    """Require that the applying account may read those awaited objects that it did not apply.

    The watches see everything, and CEL expressions can ask for any field: without this, health
    checks would read other tenants' Secrets.

    Raises:
        HealthCheckError: one may not be read, or cannot be.
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
    """Return how the wait of an applier stands; begin one if none is under way."""
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
    """Return after how many seconds to look again; None if the watches start the next pass."""
    return None if all(cluster.live.current(ref) for ref in awaited) else _LOOK_AGAIN_SECONDS


def end(cluster: Cluster, key: ObjectKey) -> None:
    """Forget the wait of an applier: its verdict is taken, or does not matter any more."""
    cluster.waits.cancel(key)
    cluster.live.observe(key, ())


def told(failed: Verdict) -> str:
    """Return, in Flux's words, why a wait failed."""
    why = "timeout waiting for" if failed.state == "timeout" else _STALLED
    return f"{why}: [{failed}]"
