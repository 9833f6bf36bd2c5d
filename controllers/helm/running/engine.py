"""Run an action on a release in a worker, and observe its writes.

The requests of the worker to the API server go through this process (``toolkit.helm.witness``). So
when the action ends, the versions of the written objects and records are known. ``records`` covers
only the controller's own cluster.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controllers.helm.deciding.locks import RECORDER
from controllers.helm.deciding.orders import MANAGER
from controllers.helm.running.records import Place, Records
from toolkit.apply import fields, health, retention
from toolkit.apply.changes import Known
from toolkit.apply.order import Identity
from toolkit.apply.retention import NOTHING, Retention
from toolkit.errors import TransientError
from toolkit.helm import actions
from toolkit.helm.actions import Chart, Order, Outcome
from toolkit.helm.gates import Exchanging, Response
from toolkit.helm.keeping import Keeping
from toolkit.helm.recent import Recent
from toolkit.helm.signing import Signing
from toolkit.helm.witness import Witness
from toolkit.kube.client import Client
from toolkit.native.calls import EngineError
from toolkit.native.pool import WorkerDiedError, WorkerTimeoutError
from toolkit.objects import Json, ObjectKey, ObjectRef, dig, ref_of

Run = Callable[[actions.Release, Order], Awaitable[Outcome]]
"""Runs one action (``toolkit.helm.actions.run``)."""

_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_READS: Final = frozenset({"GET"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A release: its owner, its name and namespaces, and the client to act with.

    ``cluster`` is the key under which workers cache the discovery of the API server. ``followed``
    tells whether a watch shows the records of the release. ``keeps`` is what no action deletes.
    """

    owner: ObjectKey
    cluster: str
    client: Client
    name: str
    namespace: str
    storage_namespace: str
    followed: bool = True
    keeps: Retention = NOTHING


@dataclass(slots=True, kw_only=True)
class Traces:
    """The writes of an action, from the answers of the API server.

    ``written`` has the objects that were created or changed. ``going`` has the objects that are
    being deleted but still exist, because of finalizers or running containers. ``kept`` has the
    Namespaces and definitions that were not deleted, because the release must not delete them.
    """

    written: dict[Identity, Known] = field(default_factory=dict)
    going: dict[Identity, ObjectRef] = field(default_factory=dict)
    kept: set[ObjectRef] = field(default_factory=set)

    def __call__(self, method: str, path: str, answer: Json) -> None:
        """Record an answer (``toolkit.helm.witness.Seen``)."""
        del path
        if answer.get("kind") in {None, "Status"}:
            return
        ref = ref_of(answer)
        if method == "DELETE":
            if dig(answer, "metadata", "deletionTimestamp"):
                self.going[ref.identity] = ref  # Otherwise the object is already deleted.
            return
        self.written[ref.identity] = Known(
            ref=ref,
            payload_digest="",
            entry_digest=fields.entry_digest(answer, MANAGER),
            uid=str(dig(answer, "metadata", "uid", default="")),
            resource_version=str(dig(answer, "metadata", "resourceVersion", default="")),
            vanishing=health.vanishes(answer),
            stamp=fields.stamp(answer, MANAGER),
        )


class LostError(EngineError):
    """The worker of an action ended before the action did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Runs actions, and keeps ``records`` up to date with their writes."""

    run: Run
    records: Records

    async def perform(self, target: Target, order: Order, traces: Traces) -> Outcome:
        """Run an action on a release; ``traces`` records its writes.

        Raises:
            EngineError: the action failed; ``outcome`` of the error has the records that it wrote.
            PenstockError: the action did not end, or no worker could run it.
        """
        if not target.followed:
            return await self._run(target, order, traces, target.client)
        place = Place(target.storage_namespace, target.name)
        self.records.follow(target.owner, place)
        failed: EngineError | None = None
        with self.records.acting(target.owner) as seen:
            witness = Witness(target.client, seen, methods=_WRITES | _READS)
            keeping = Recent(witness, lambda: self.records.since(place))
            try:
                return await self._run(target, order, traces, keeping)
            except LostError:
                raise
            except EngineError as error:
                failed = error  # The action ended by itself, so all its writes were observed.
        raise failed

    async def _run(
        self, target: Target, order: Order, traces: Traces, keeping: Exchanging
    ) -> Outcome:
        release = actions.Release(
            flow=target.owner.namespace,
            cluster=target.cluster,
            name=target.name,
            namespace=target.namespace,
            storage_namespace=target.storage_namespace,
            acting=Keeping(
                Witness(target.client, traces, methods=_WRITES),
                target.keeps,
                traces.kept.add,
                in_use=functools.partial(retention.in_use, target.client),
            ),
            keeping=Signing(keeping, manager=RECORDER),
        )
        try:
            return await self.run(release, order)
        except (WorkerDiedError, WorkerTimeoutError) as error:
            # Its last writes are unknown. The next reconciliation finds the record with a pending
            # status and unlocks the release.
            raise LostError(str(error), code="WorkerDied", outcome=Outcome()) from error


async def load(run: Run, chart: Path, flow: str) -> Chart:
    """Return name and versions of the chart in a directory, without access to a cluster.

    ``flow`` is that of ``WorkerPool.call``.

    Raises:
        PenstockError: the chart cannot be read.
    """
    nobody = _Nobody()
    release = actions.Release(
        flow=flow,
        cluster="",
        name="",
        namespace="",
        storage_namespace="",
        acting=nobody,
        keeping=nobody,
    )
    order = Order(action="load", timeout=_LOAD_SECONDS, manager=MANAGER, chart=chart)
    outcome = await run(release, order)
    if outcome.chart is None:
        raise TransientError("the engine returned nothing about the chart", reason="EngineFailed")
    return outcome.chart


class _Nobody:
    """The identity of an action that may not send requests."""

    def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[Response]:
        """Refuse the request."""
        del target, headers, body
        raise TransientError(f"reading a chart takes no request ({method})")


_LOAD_SECONDS: Final = 60.0
