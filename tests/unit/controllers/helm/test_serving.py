"""What an API server serves has another name when definitions come or go."""

from typing import Any, Literal

from controllers.helm.serving import Serving
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey


class Cluster:
    """A cluster by its number; the first is that we run on."""

    def __init__(self, number: int) -> None:
        self.number = number


def named(serving: Serving, number: int) -> str:
    cluster: Any = Cluster(number)
    return serving.name(cluster)


def change(kind: Literal["ADDED", "MODIFIED", "DELETED"]) -> Change[bool]:
    old = None if kind == "ADDED" else True
    new = None if kind == "DELETED" else True
    return Change(kind, ObjectKey("", "x"), old, new)


def test_definitions_that_come_or_go_make_another_state_of_our_cluster() -> None:
    serving = Serving(monotonic=lambda: 0)

    names = [named(serving, 0)]
    for event in (change("ADDED"), change("MODIFIED"), change("DELETED")):
        serving.changed(event)
        names.append(named(serving, 0))

    assert names == ["0/0", "0/1", "0/1", "0/2"]


def test_state_of_another_cluster_lasts_for_minutes() -> None:
    now = [0.0]
    serving = Serving(monotonic=lambda: now[0])

    before = named(serving, 3)
    serving.changed(change("ADDED"))
    assert named(serving, 3) == before
    now[0] = 301
    assert named(serving, 3) != before
