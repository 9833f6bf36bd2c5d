"""Run an action on a release, and see what it writes.

The engine's worker does the work. What it sends to the API server passes through here
(``toolkit.helm.witness``), so what is expected of each object, and which records are ours, is known
when it ends. ``records`` follow the storage of the cluster that we run on alone.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controllers.helm.deciding.orders import MANAGER
from controllers.helm.running.records import Place, Records
from toolkit.apply import fields, health
from toolkit.apply.changes import Known
from toolkit.apply.order import Identity
from toolkit.errors import TransientError
from toolkit.helm import actions
from toolkit.helm.actions import Chart, Order, Outcome
from toolkit.helm.gates import Exchanging, Response
from toolkit.helm.recent import Recent
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
    """A release: whose it is, where it goes, and as whom.

    ``cluster`` names the API server and what it serves. ``followed`` tells that a watch shows its
    records.
    """

    owner: ObjectKey
    cluster: str
    client: Client
    name: str
    namespace: str
    storage_namespace: str
    followed: bool = True


@dataclass(slots=True, kw_only=True)
class Traces:
    """What an action wrote, as the API server answered: objects as they are, and those going.

    An object that is going still exists; finalizers or its containers hold it.
    """

    written: dict[Identity, Known] = field(default_factory=dict)
    going: dict[Identity, ObjectRef] = field(default_factory=dict)

    def __call__(self, method: str, path: str, answer: Json) -> None:
        """Take an answer (``toolkit.helm.witness.Seen``)."""
        del path
        if answer.get("kind") in {None, "Status"}:
            return
        ref = ref_of(answer)
        if method == "DELETE":
            if dig(answer, "metadata", "deletionTimestamp"):
                self.going[ref.identity] = ref  # else the answer shows what is gone already
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
    """Runs actions, with what this process knows of records."""

    run: Run
    records: Records

    async def perform(self, target: Target, order: Order, traces: Traces) -> Outcome:
        """Run an action on a release; ``traces`` take what it writes.

        Raises:
            EngineError: it failed; ``outcome`` has the records that it made.
            PenstockError: it did not end, or no worker could run it.
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
                failed = error  # it has ended by itself, so all that it wrote was seen
        raise failed

    async def _run(
        self, target: Target, order: Order, traces: Traces, keeping: Exchanging
    ) -> Outcome:
        release = actions.Release(
            cluster=target.cluster,
            name=target.name,
            namespace=target.namespace,
            storage_namespace=target.storage_namespace,
            acting=Witness(target.client, traces, methods=_WRITES),
            keeping=keeping,
        )
        try:
            return await self.run(release, order)
        except (WorkerDiedError, WorkerTimeoutError) as error:
            # What it wrote last is not known. An action that began is found unfinished, and
            # unlocked.
            raise LostError(str(error), code="WorkerDied", outcome=Outcome()) from error


async def load(run: Run, chart: Path) -> Chart:
    """Return what is told of the chart in a directory; no cluster takes part.

    Raises:
        PenstockError: it cannot be read.
    """
    nobody = _Nobody()
    release = actions.Release(
        cluster="", name="", namespace="", storage_namespace="", acting=nobody, keeping=nobody
    )
    order = Order(action="load", timeout=_LOAD_SECONDS, manager=MANAGER, chart=chart)
    outcome = await run(release, order)
    if outcome.chart is None:
        raise TransientError("the engine returned nothing about the chart", reason="EngineFailed")
    return outcome.chart


class _Nobody:
    """The identity of an action that asks no cluster."""

    def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[Response]:
        """Refuse."""
        del target, headers, body
        raise TransientError(f"reading a chart takes no request ({method})")


_LOAD_SECONDS: Final = 60.0
