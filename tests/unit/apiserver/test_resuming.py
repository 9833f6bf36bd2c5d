"""A watch goes on at any replica, and its reader ends up with what there is."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apiserver import position, resuming, selectors, watching
from apiserver.history import Bounds
from apiserver.item import Event, Item
from apiserver.resuming import MARGIN
from apiserver.selectors import Selector
from apiserver.status import StatusError
from apiserver.view import View
from tests.fakes.readserver import gauge, new_view
from toolkit.objects import GroupVersionKind, Json, ObjectKey

LAG = int(MARGIN / 2)


class Time:
    """One clock for all replicas."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Listed:
    """A cache that has read what there is."""

    gvk = GroupVersionKind("", "v1", "River")
    synced = True
    last_error: Exception | None = None
    failing_for = 0.0

    def __init__(self, *, revision: int) -> None:
        self.revision = revision


def replica(tag: int, time: Time, **more: object) -> View:
    view = new_view(tag=tag, clock=time, **more)
    view.complete()
    return view


def told(view: View, version: int) -> list[tuple[str, str]]:
    """Return what a watch is told first that comes back with a version."""
    found = resuming.resume(view, version)
    rest = view.history.read(found.place, 1000) or ()
    return [
        (kind, f"{item.key.name}@{item.version}")
        for event in (*found.events, *rest)
        for kind, item in said(event, Selector())
    ]


def said(event: Event, selector: Selector) -> Iterator[tuple[str, Item]]:
    return iter(watching.meaning(event, selector))


def test_the_same_process_goes_on_exactly_after_a_version() -> None:
    view = replica(7, Time())
    for revision in range(1, 6):
        view.put(gauge(f"n{revision}"), revision=revision)

    assert told(view, 3_001_007) == [("ADDED", "n4@4001007"), ("ADDED", "n5@5001007")]
    assert told(view, view.position()) == []


def test_a_bookmark_is_gone_on_from_exactly() -> None:
    view = replica(7, Time())
    view.put(gauge("web", level=1), revision=1)
    view.advance(5)
    mark = view.position()
    view.put(gauge("web", level=2), revision=6)

    assert told(view, mark) == [("MODIFIED", "web@6001007")]


def test_an_object_from_before_the_start_is_no_place_that_is_too_old() -> None:
    view = new_view()
    view.put(gauge("web"), revision=3)
    view.put(gauge("api"), revision=9)
    view.complete()
    version = view.snapshot().items[1].version
    view.put(gauge("api", level=2), revision=10)

    assert version == view.birth == 9_000_007
    assert told(view, version) == [("MODIFIED", "api@10001007")]


def test_what_has_left_the_history_cannot_be_gone_on_from() -> None:
    view = replica(7, Time(), bounds=Bounds(events=5))
    first = view.position()
    for revision in range(1, 1000):
        view.put(gauge("web", level=revision), revision=revision)

    with pytest.raises(StatusError, match="too old resource version") as refused:
        resuming.resume(view, first)

    assert (refused.value.code, refused.value.reason) == (410, "Expired")


@pytest.mark.parametrize("version", [1, 999, 12_000_001, 4_000_001_001])
def test_a_version_from_before_this_process_started_is_too_old(version: int) -> None:
    time = Time()
    view = new_view(tag=7, clock=time)
    view.advance(4000)
    view.complete()
    time.now += 100
    view.advance(5000)

    with pytest.raises(StatusError) as refused:
        resuming.resume(view, version)

    assert refused.value.code == 410


def test_what_was_deleted_before_this_process_started_is_no_future() -> None:
    time = Time()
    view = new_view(tag=7, clock=time)
    view.follow(Listed(revision=60))
    view.put(gauge("old"), revision=40)
    view.complete()
    newest = 50_001_003  # of an object that only the process before has seen
    early = view.clock.revision
    time.now += 100
    view.put(gauge("web"), revision=70)

    with pytest.raises(StatusError) as refused:
        resuming.resume(view, newest)

    assert early == 60, "it is not waited for"
    assert refused.value.code == 410, "what happened while nobody ran is in no history"


def test_another_replicas_version_repeats_what_changed_lately() -> None:
    time = Time()
    ours = replica(7, time)
    ours.put(gauge("old"), revision=1)
    time.now += 100
    ours.put(gauge("web"), revision=50)
    ours.put(gauge("gone"), revision=51)
    time.now += MARGIN / 2
    ours.remove(ObjectKey("apps", "gone"), revision=52)
    ours.put(gauge("late"), revision=60)

    again = told(ours, 55_001_003)

    assert {(kind, name.partition("@")[0]) for kind, name in again} == {
        ("ADDED", "web"),
        ("DELETED", "gone"),
        ("ADDED", "late"),
    }
    versions = [int(name.partition("@")[2]) for _, name in again]
    assert versions == sorted(versions)
    assert versions[0] > 55_001_003, "nobody takes it for old news"


def test_a_stream_that_breaks_amid_the_repetition_misses_nothing() -> None:
    time = Time()
    ours = replica(7, time)
    time.now += 100
    for revision in range(50, 55):
        ours.put(gauge(f"n{revision}"), revision=revision)
    first, *_ = (name for _, name in told(ours, 54_500_003))

    again = told(ours, int(first.partition("@")[2]))

    assert {name.partition("@")[0] for _, name in again} == {f"n{n}" for n in range(50, 55)}


def test_who_may_know_an_object_that_is_selected_no_more_is_told() -> None:
    time = Time()
    ours = replica(7, time)
    time.now += 100
    ours.put(gauge("web", labels={"a": "no"}), revision=50)
    ours.put(gauge("web", labels={"a": "yes"}), revision=51)
    ours.put(gauge("web", labels={"a": "no"}), revision=52)
    (event,) = resuming.resume(ours, 51_001_003).events

    chosen = list(said(event, Selector(labels=selectors.parse_labels("a=yes"))))

    assert [(kind, item.labels) for kind, item in chosen] == [("DELETED", {"a": "yes"})]


def test_another_object_of_the_same_name_is_told_as_another() -> None:
    time = Time()
    ours = replica(7, time)
    ours.put(gauge("web", uid="1"), revision=1)
    time.now += 100
    ours.put(gauge("web", uid="2"), revision=50)

    events = resuming.resume(ours, 50_000_003).events

    meant = [(kind, item.uid) for event in events for kind, item in said(event, Selector())]
    assert meant == [("DELETED", "1"), ("ADDED", "2")]


def test_who_missed_more_than_a_list_lists() -> None:
    time = Time()
    ours = replica(7, time)
    time.now += 100
    ours.put(gauge("x", namespace="other"), revision=50)
    for revision in range(51, 1100):
        ours.put(gauge("web", level=revision), revision=revision)

    with pytest.raises(StatusError) as refused:
        resuming.resume(ours, 50_000_003)
    other = resuming.resume(ours, 50_000_003, namespace="other")

    assert refused.value.code == 410
    assert [event.key.name for event in other.events] == ["x"]


def test_who_missed_a_large_object_lists() -> None:
    time = Time()
    ours = replica(7, time)
    time.now += 100
    ours.put(gauge("large", text="x" * (1 << 17)), revision=50)

    with pytest.raises(StatusError) as refused:
        resuming.resume(ours, 50_000_003)

    assert refused.value.code == 410, "each reader would have a copy, with a version of its own"


def test_another_replicas_page_is_ours_only_if_nothing_changed_behind_it() -> None:
    time = Time()
    ours = replica(7, time)
    time.now += 100
    ours.advance(40)
    ours.put(gauge("b", namespace="x"), revision=50)

    def same(start: tuple[str, str], namespace: str = "") -> bool:
        return resuming.unchanged(ours, 50_000_003, namespace, start)

    assert not same(("", ""))
    assert not same(("x", "a"))
    assert same(("x", "b\0"))
    assert same(("", ""), "other")
    assert not resuming.unchanged(ours, 1_000_003, "", ("z", ""))


@dataclass
class Client:
    """A reflector: lists, watches, goes on where it was, lists again after 410.

    ``highest`` is the newest version that it has seen of each object, by uid, and what that said.
    """

    selector: Selector
    highest: dict[str, tuple[int, str]] = field(default_factory=dict)
    store: dict[tuple[str, str], Json] = field(default_factory=dict)
    version: int = 0

    def follow(self, view: View, limit: int) -> None:
        """Read at most so many events from a replica."""
        if position.revision_of(self.version) > view.clock.revision:
            return  # 504; it tries again later
        try:
            found = resuming.resume(view, self.version) if self.version else None
        except StatusError as exc:
            assert exc.code == 410  # noqa: PT017 - the only one
            found = None
        if found is None:
            self._list(view)
            return
        events = (*found.events, *(view.history.read(found.place, 10_000) or ()))
        lines = [each for event in events for each in said(event, self.selector)]
        for kind, item in lines[:limit]:
            self._take(kind, item)
        if len(lines) <= limit:
            self.version = max(self.version, view.position())

    def _list(self, view: View) -> None:
        snapshot = view.snapshot()
        chosen = [item for item in snapshot.items if self.selector.matches(item)]
        for item in chosen:
            self._compare(item)
        self.store = {item.order: item.obj for item in chosen}
        self.version = snapshot.position

    def _take(self, kind: str, item: Item) -> None:
        assert item.version >= self.version, "a stream does not go back"
        self.version = max(self.version, item.version)
        self._compare(item)
        if kind == "DELETED":
            self.store.pop(item.order, None)
        else:
            self.store[item.order] = item.obj

    def _compare(self, item: Item) -> None:
        known, said = self.highest.get(item.uid, (0, ""))
        spec = str(item.obj["spec"])
        assert item.version >= known, "an object goes back"
        assert item.version > known or spec == said, "a version means two things"
        self.highest[item.uid] = (item.version, spec)


def content(store: dict[tuple[str, str], Json]) -> dict[tuple[str, str], tuple[str, str]]:
    return {order: (obj["metadata"]["uid"], str(obj["spec"])) for order, obj in store.items()}


KINDS = 2
CHANGES = st.tuples(st.integers(0, KINDS - 1), st.integers(0, 3), st.integers(0, 3))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), CHANGES),
        st.tuples(st.just("wait"), st.integers(1, 8)),
        st.tuples(st.just("see"), st.tuples(st.integers(0, 1), st.integers(0, KINDS - 1))),
        st.tuples(st.just("read"), st.tuples(st.integers(0, 1), st.integers(0, 3))),
        st.tuples(st.just("restart"), st.integers(0, 1)),
    ),
    max_size=60,
)


MISSED: list[tuple[str, Any]] = [
    ("change", (1, 0, 1)),
    ("see", (1, 1)),
    ("wait", 1),
    ("change", (0, 0, 1)),
    ("see", (0, 0)),
    ("see", (1, 0)),
    ("read", (0, 3)),
]
"""A reader of one replica gets ahead of a kind that only the other one has heard of."""

FORGOTTEN: list[tuple[str, Any]] = [
    ("change", (0, 0, 1)),
    ("change", (0, 1, 1)),
    ("see", (0, 0)),
    ("see", (0, 0)),
    ("read", (0, 3)),
    ("change", (0, 1, 0)),
    ("restart", 1),
    ("wait", 16),
    ("change", (0, 2, 1)),
]
"""The newest object that a reader knows is gone before the other replica starts."""


class World:
    """Backing objects of two kinds, and two replicas whose informers lag each other.

    No informer lags more than ``LAG`` seconds: that is what the margin is made for.
    """

    def __init__(self) -> None:
        self.time = Time()
        self.revision = 100
        self.truth: dict[tuple[int, int], tuple[int, int]] = {}
        self.log: list[list[tuple[float, int, int, int, int]]] = [[] for _ in range(KINDS)]
        self.seen = [[0] * KINDS for _ in range(2)]
        self.tag = 0
        self.views = [self._start(index) for index in range(2)]
        self.time.now += 100

    def change(self, kind: int, name: int, level: int) -> None:
        """Write a backing object; level 0 deletes it, and what comes next is another one."""
        self.revision += 1
        if level:
            known = self.truth.get((kind, name))
            self.truth[kind, name] = (known[0] if known else self.revision, level)
        elif self.truth.pop((kind, name), None) is None:
            return
        uid = self.truth.get((kind, name), (0, 0))[0]
        self.log[kind].append((self.time.now, self.revision, name, level, uid))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.time.now += 1
            for index in range(2):
                for kind in range(KINDS):
                    while self._late(index, kind):
                        self.see(index, kind)
                if self.seen[index] == [len(log) for log in self.log]:
                    self.views[index].advance(self.revision)  # a bookmark

    def see(self, index: int, kind: int) -> None:
        """Let one informer of a replica hear of its next change."""
        at = self.seen[index][kind]
        if at == len(self.log[kind]):
            return
        self.seen[index][kind] += 1
        self._show(self.views[index], kind, self.log[kind][at])

    def restart(self, index: int) -> None:
        """Start a replica anew: it reads what is there, and has no history."""
        self.views[index] = self._start(index)

    def _late(self, index: int, kind: int) -> bool:
        at = self.seen[index][kind]
        log = self.log[kind]
        return at < len(log) and self.time.now - log[at][0] >= LAG

    def _show(self, view: View, kind: int, change: tuple[float, int, int, int, int]) -> None:
        _, revision, name, level, uid = change
        key = ObjectKey("apps", f"{kind}-{name}")
        if level:
            labels = {"level": str(level)}
            obj = gauge(key.name, uid=str(uid), level=level, labels=labels)
            view.put(obj, revision=revision)
        else:
            view.remove(key, revision=revision)

    def _start(self, index: int) -> View:
        self.tag = (self.tag + 377) % 1000
        self.revision += 1  # the write that a process begins with
        view = new_view(tag=self.tag, clock=self.time)
        view.follow(Listed(revision=self.revision))
        for kind, log in enumerate(self.log):
            # a list has nothing of what was deleted
            for change in {change[2]: change for change in log}.values():
                if change[3]:
                    self._show(view, kind, change)
            self.seen[index][kind] = len(log)
        view.complete()
        return view


@given(ACTIONS, st.sampled_from(("", "level!=2")), st.integers(0, 1))
@example(MISSED, "", 1)
@example(FORGOTTEN, "", 1)
@settings(max_examples=300, deadline=None)
def test_whatever_happens_readers_converge(
    actions: list[tuple[str, Any]], text: str, last: int
) -> None:
    world = World()
    client = Client(Selector(labels=selectors.parse_labels(text)))

    for action, argument in actions:
        if action == "change":
            world.change(*argument)
        elif action == "wait":
            world.wait(argument)
        elif action == "see":
            world.see(*argument)
        elif action == "restart":
            world.restart(argument)
        else:
            index, limit = argument
            client.follow(world.views[index], limit)
    world.wait(2 * LAG)
    client.follow(world.views[last], 1000)

    wanted = {
        ("apps", f"{kind}-{name}"): (str(uid), str({"level": level}))
        for (kind, name), (uid, level) in world.truth.items()
        if text == "" or level != 2
    }
    assert content(client.store) == wanted
