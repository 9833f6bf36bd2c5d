"""Run one action of Helm in a worker: install, upgrade, rollback, uninstall, test and others.

An action ends when its objects are applied and its hooks have run; the caller waits until the
objects are ready. An action has ``timeout`` seconds, and a little more to write its record. If a
worker exceeds that too, or dies, the release stays pending, and the caller must ``unlock`` it.
"""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from toolkit.helm import gates
from toolkit.helm.exchanges import Exchanges
from toolkit.native import calls, library
from toolkit.native.engine import Status
from toolkit.native.kind import WorkerKind
from toolkit.native.pool import WorkerPool, WorkerStuckError, WorkerTimeoutError
from toolkit.objects import Json
from toolkit.release import record
from toolkit.release.record import Record

Action = Literal[
    "fail",
    "history",
    "install",
    "load",
    "render",
    "rollback",
    "test",
    "uninstall",
    "unlock",
    "upgrade",
]

MEMORY_LIMIT: Final = 600 << 20
"""Bytes for a worker."""
ANSWER_LIMIT: Final = 24 << 20
"""Bytes of an answer: a manifest, and the objects that it has as JSON.

Several are read at once, in the process that serves all tenants.
"""
_STORAGE_SECONDS: Final = 10.0
"""``storageSeconds`` of ``engine/internal/helm``."""
_GRACE_SECONDS: Final = _STORAGE_SECONDS + 2.0
RENDER_SECONDS: Final = 30.0
"""Limit for rendering the templates of a chart; large charts take one or two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The release of an action, its cluster, and the identities to act with.

    - ``flow`` is that of ``WorkerPool.call``: the namespace of the HelmRelease.
    - ``cluster`` is the key under which workers cache discovery. It must change when definitions or
      the version of the API server change.
    - ``acting`` sends the requests of the chart.
    - ``keeping`` reads and writes the records in ``storage_namespace``.
    """

    flow: str
    cluster: str
    name: str
    namespace: str
    storage_namespace: str
    acting: gates.Exchanging
    keeping: gates.Exchanging


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The action and its options, by the JSON names of ``engine/internal/helm/request.go``.

    ``timeout`` is in seconds, and includes ``rendering``, the limit for the templates in seconds.
    ``secrets`` are texts that must not appear in an error.
    """

    action: Action
    timeout: float
    manager: str
    chart: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    rendering: float = RENDER_SECONDS


class Chart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Name, versions and values of a chart."""

    name: str
    version: str
    app_version: str = ""
    values: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an action: the records that it wrote, newest first, and their objects.

    ``objects`` are those of the newest record and the definitions of the chart, without hooks.
    ``log`` are the last lines of Helm's log. ``unchecked`` tells which schemas did not validate the
    values. ``requests`` is the number of requests to the API
    server.
    """

    records: tuple[Record, ...] = ()
    objects: tuple[Json, ...] = ()
    log: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    chart: Chart | None = None
    requests: int = 0


def start(
    *, size: int, spares: int = 0, memory_limit: int = MEMORY_LIMIT, reads: Sequence[Path] = ()
) -> WorkerPool:
    """Return a pool of workers for actions; charts are read below ``reads`` alone.

    Raises:
        StalledError: the engine is not built.
    """
    return WorkerPool(kind(memory_limit=memory_limit), size=size, spares=spares, reads=reads)


def kind(*, memory_limit: int = MEMORY_LIMIT) -> WorkerKind:
    """Return the row of such a worker: that of the engine, with another library and module."""
    row = calls.kind(memory_limit=memory_limit, path=library.with_helm(library.find()))
    return dataclasses.replace(
        row,
        module="toolkit.helm.worker",
        answer_limit=ANSWER_LIMIT,
        # Most of the heap is permanent: the clients of all API groups. A higher value would cost
        # memory and save hardly any time.
        environment={**row.environment, "GOGC": "100"},
    )


async def run(pool: WorkerPool, release: Release, order: Order) -> Outcome:
    """Run one action and return its result; if cancelled, end the action, which writes its record.

    Raises:
        EngineError: the action failed; ``code`` is one of ``engine/internal/helm/failure.go``,
            ``outcome`` is its result so far, ``detail`` has ``file`` and ``line`` of a template.
        RecordError: a record in Helm's storage is not valid.
        WorkersBusyError: the action was not started, because no worker was free.
        WorkerTimeoutError: the action did not end by itself.
        WorkerDiedError: the worker crashed; ``WorkerMemoryError`` if it used too much memory.
    """
    exchanges = Exchanges(_gates(release))
    payload = msgspec.json.encode(_request(release, order))
    task = asyncio.ensure_future(
        pool.call(
            f"helm.{order.action}",
            payload,
            flow=release.flow,
            timeout=order.timeout + _GRACE_SECONDS,
            answering=exchanges,
        )
    )
    try:
        answer = await asyncio.shield(task)
    except asyncio.CancelledError:
        exchanges.cancel()
        await _ended(task)
        raise
    except WorkerStuckError as exc:
        outcome = Outcome(requests=exchanges.count)
        raise calls.EngineError(str(exc), code="RenderTimeout", outcome=outcome) from exc
    return _outcome(order, answer, exchanges.count)


async def _ended(task: "asyncio.Future[bytes]") -> None:
    await asyncio.wait({task}, timeout=_GRACE_SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _gates(release: Release) -> Mapping[str, gates.Gate]:
    records = gates.records(namespace=release.storage_namespace, release=release.name)
    return {
        "release": gates.Gate(client=release.acting, allows=gates.anything),
        "storage": gates.Gate(client=release.keeping, allows=records),
    }


def _request(release: Release, order: Order) -> Mapping[str, Any]:
    return {
        "cluster": release.cluster,
        "name": release.name,
        "namespace": release.namespace,
        "storageNamespace": release.storage_namespace,
        "timeoutMs": max(1, int(order.timeout * 1000)),
        "renderMs": max(1, int(min(order.rendering, order.timeout) * 1000)),
        "manager": order.manager,
        "chart": "" if order.chart is None else str(order.chart),
        "values": order.values,
        "options": order.options,
        "secrets": order.secrets,
    }


class _Answer(msgspec.Struct, frozen=True):
    """The result of an action (``engine/internal/helm/answer.go``)."""

    records: tuple[msgspec.Raw, ...] | None = ()
    objects: tuple[Json, ...] | None = ()
    log: tuple[str, ...] | None = ()
    unchecked: tuple[str, ...] | None = ()
    chart: Chart | None = None

    def outcome(self, requests: int) -> Outcome:
        """Return the result in the form for callers."""
        return Outcome(
            records=tuple(record.decode(bytes(each)) for each in self.records or ()),
            objects=self.objects or (),
            log=self.log or (),
            unchecked=self.unchecked or (),
            chart=self.chart,
            requests=requests,
        )


class _Detail(msgspec.Struct, frozen=True):
    answer: _Answer = _Answer()
    file: str = ""
    line: int = 0


class _Failure(msgspec.Struct, frozen=True):
    """The error of an action (``engine/internal/helm/failure.go``)."""

    code: str
    message: str
    detail: msgspec.Raw = msgspec.Raw(b"{}")


def _outcome(order: Order, answer: bytes, requests: int) -> Outcome:
    """Decode an answer. It is untrusted, because the worker has rendered templates of a tenant."""
    try:
        status, body = Status(answer[0]), memoryview(answer)[1:]
        if status is Status.OK:
            return msgspec.json.decode(body, type=_Answer).outcome(requests)
        failure = msgspec.json.decode(body, type=_Failure)
        detail = _Detail()
        if status is Status.FAILED:
            detail = msgspec.json.decode(failure.detail, type=_Detail)
        outcome = detail.answer.outcome(requests)
    except (msgspec.MsgspecError, IndexError, ValueError, RecursionError) as exc:
        raise calls.EngineError(
            f"the answer of helm.{order.action} cannot be read", code="Malformed"
        ) from exc
    if status is Status.CANCELLED:
        raise WorkerTimeoutError(f"helm.{order.action} was ended")
    raise calls.EngineError(
        failure.message,
        code=failure.code,
        detail={"file": detail.file, "line": detail.line},
        outcome=outcome,
    )
