"""What is known of an action's writes, and what reading a chart may not do."""

from pathlib import Path

import pytest

from controllers.helm.running import engine
from controllers.helm.running.engine import Traces
from toolkit.errors import TransientError
from toolkit.helm.actions import Chart, Order, Outcome, Release
from toolkit.objects import Json, ref_of

SERVICE: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "team"},
}
GOING: Json = SERVICE | {
    "metadata": {**SERVICE["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
}


def test_object_that_finalizers_hold_is_going() -> None:
    traces = Traces()

    traces("DELETE", "/services/web", GOING)

    assert tuple(traces.going.values()) == (ref_of(GOING),)


def test_object_that_is_gone_at_once_is_not_looked_for() -> None:
    traces = Traces()

    # the API server answers some deletions with the last state of the object
    traces("DELETE", "/services/web", SERVICE)

    assert traces.going == {}


async def test_answer_without_a_chart_is_a_failure(tmp_path: Path) -> None:
    async def run(_: Release, __: Order) -> Outcome:
        return Outcome()

    with pytest.raises(TransientError, match="returned nothing about the chart"):
        await engine.load(run, tmp_path, flow="team")


async def test_reading_a_chart_asks_no_cluster(tmp_path: Path) -> None:
    async def run(release: Release, _: Order) -> Outcome:
        for identity in (release.acting, release.keeping):
            with pytest.raises(TransientError, match="takes no request"):
                identity.exchange("GET", "/version", headers={}, body=b"")
        return Outcome(chart=Chart(name="shop", version="1.0.0"))

    assert (await engine.load(run, tmp_path, flow="team")).name == "shop"
