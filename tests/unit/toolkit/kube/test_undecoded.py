"""Objects that their model does not decode are reported, and reconciled once they can be read."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import crds
from crds import KINDS
from crds.notification import Alert
from crds.policy_source import SourcePolicy
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.controllerbench import REPOS, SPEC, Bench, work
from toolkit import telemetry
from toolkit.kube import undecoded
from toolkit.kube.reconciliation import FINALIZER, REQUESTED_AT, Event
from toolkit.kube.undecoded import Undecoded
from toolkit.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG = {**SPEC, "ref": ["main"]}
RECONCILED = [kind for kind in KINDS if kind.group != "policy.penstock.dev"]


def _wrong(server: FakeApiServer, **meta: Any) -> None:
    server.put(REPOS, "a", spec=dict(WRONG), metadata={"generation": 2, **meta})


async def _reported(bench: Bench) -> None:
    await bench.until(lambda: bench.condition("Ready"))
    await bench.idle()


def test_object_of_the_store_is_reported_once_by_condition_event_and_metric() -> None:
    counted: list[float] = []

    async def scenario(bench: Bench) -> None:
        await _reported(bench)
        counted.append(telemetry.UNDECODED.labels("GitRepository")._value.get())

    bench = work(scenario, stored=_wrong)

    status, reason, message = bench.condition("Ready") or ("", "", "")
    assert (status, reason) == ("False", "ValidationFailed")
    assert "spec.ref: it must be an object or nothing, and is a list" in message
    assert bench.condition("Stalled") == ("True", reason, message)
    assert bench.status["observedGeneration"] == 2
    assert [(each.severity, each.message) for each in bench.events] == [("error", message)]
    assert bench.status_writes == 1
    assert bench.passes == []
    assert counted == [1.0]


def test_object_is_reconciled_as_soon_as_it_can_be_read() -> None:
    async def scenario(bench: Bench) -> None:
        await _reported(bench)
        bench.put(generation=3)
        await bench.until(lambda: bench.passes)
        await bench.idle()

    bench = work(scenario, stored=_wrong)

    assert bench.condition("Ready") == ("True", "Succeeded", "fine")
    assert bench.condition("Stalled") is None
    assert telemetry.UNDECODED.labels("GitRepository")._value.get() == 0


def test_object_that_cannot_be_read_any_more_is_not_reconciled_as_it_was() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put()
        await bench.until(lambda: bench.condition("Ready"))
        _wrong(bench.server, annotations={REQUESTED_AT: "now"})
        await bench.until(lambda: bench.condition("Stalled"))
        await bench.idle()

    bench = work(scenario)

    assert len(bench.passes) == 1
    assert bench.status["lastHandledReconcileAt"] == "now"


def test_deletion_that_waits_is_told() -> None:
    def stored(server: FakeApiServer) -> None:
        _wrong(server, finalizers=[FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z")

    bench = work(_reported, stored=stored)

    assert "its deletion waits" in (bench.condition("Ready") or ("", "", ""))[2]
    assert bench.finalized == []


def test_condition_of_a_kind_that_is_not_reconciled_goes_with_its_cause() -> None:
    async def scenario(bench: Bench) -> None:
        await _reported(bench)
        bench.server.put(
            REPOS, "a", spec={**SPEC, "url": "ssh://git@example.com/a"}, metadata={"generation": 3}
        )
        await bench.until(lambda: not bench.condition("Ready"))

    bench = work(scenario, stored=_wrong)

    assert bench.condition("Stalled") is None


def test_report_of_an_object_that_is_gone_ends() -> None:
    async def scenario(bench: Bench) -> None:
        await _reported(bench)
        bench.server.remove(REPOS, "a")
        await bench.idle()

    work(scenario, stored=_wrong)

    assert telemetry.UNDECODED.labels("GitRepository")._value.get() == 0


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata": {"name": 1, "labels": {"a": 1}}}'])
def test_stand_in_needs_no_part_of_the_object(raw: bytes) -> None:
    assert undecoded.stand_in(Alert, raw).spec.event_sources == []


@pytest.mark.parametrize("kind", RECONCILED, ids=lambda kind: kind.kind)
def test_every_kind_has_a_stand_in(kind: Any) -> None:
    raw = b"""{"metadata": {"name": "a", "generation": 3, "labels": {"x": null}}, "spec": [],
        "status": {"conditions": [{"type": "Odd"}, {"type": "Ready", "status": "True",
        "reason": "X", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"""

    found = undecoded.stand_in(kind.model, raw)

    assert (found.metadata.name, found.metadata.generation) == ("a", 3)
    assert [each.type for each in found.status.conditions] == ["Ready"]


def test_words_that_a_field_takes_are_told_and_no_secret_is() -> None:
    raw = b"""{"metadata": {"name": "a"}, "spec": {"providerRef": {"name": "chat"},
        "eventSources": [{"kind": "Unknown", "name": "*"}]}}"""
    error = _error(raw)

    told = undecoded.why(Undecoded(raw, error), crds.ALERT.model)

    assert "spec.eventSources[0].kind 'Unknown'" in told
    assert "ResourceSetInputProvider" in told


async def test_events_tell_of_kinds_that_no_controller_reconciles() -> None:
    raw = b'{"metadata": {"name": "signed", "uid": "1"}, "spec": {"mode": "Sometimes"}}'
    lost = Undecoded(raw, _error(raw, SourcePolicy))
    events: list[Event] = []
    handlers: list[Callable[[ObjectKey, Undecoded | None], None]] = []
    informer = SimpleNamespace(subscribe_undecoded=handlers.append)
    recorder = SimpleNamespace(emit=events.append)

    telling = asyncio.create_task(
        undecoded.tell(crds.SOURCE_POLICY, informer, recorder, meanwhile="all is refused")
    )
    await asyncio.sleep(0)
    handlers[0](ObjectKey("", "signed"), lost)
    telling.cancel()

    (event,) = events
    assert (event.severity, event.reason, event.meta.uid) == ("error", "ValidationFailed", "1")
    assert "cannot be read, and all is refused until it can: spec.mode 'Sometimes'" in event.message
    assert telemetry.UNDECODED.labels("SourcePolicy")._value.get() == 1
    handlers[0](ObjectKey("", "signed"), None)
    assert telemetry.UNDECODED.labels("SourcePolicy")._value.get() == 0


def _error(raw: bytes, model: Any = Alert) -> Exception:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(raw, type=model)
    return caught.value
