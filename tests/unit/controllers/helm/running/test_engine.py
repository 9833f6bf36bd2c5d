"""What is known of an action's writes."""

from controllers.helm.running.engine import Traces
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
