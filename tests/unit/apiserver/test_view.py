"""The view knows what is and what was, within bounds."""

import asyncio
import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.history import Bounds
from apiserver.item import Item
from apiserver.view import Snapshot, View
from tests.fakes import virtualtime
from tests.fakes.readserver import gauge, new_view
from toolkit.objects import GroupVersionKind, ObjectKey

WEB = ObjectKey("apps", "web")


def complete(**more: object) -> View:
    view = new_view(**more)
    view.complete()
    return view


def names(items: tuple[Item, ...]) -> list[str]:
    return [f"{item.key}" for item in items]


def events(view: View, place: int = 0) -> list[tuple[str, str, str]]:
    found = view.history.read(place, 100_000)
    assert found is not None
    return [
        (
            str(event.key),
            str(event.olds[0].obj["spec"]) if event.olds else "",
            str(event.new.obj["spec"]) if event.new else "",
        )
        for event in found
    ]


def test_objects_come_in_the_order_of_their_names() -> None:
    view = complete()
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "k"), ("a", "y")):
        view.put(gauge(name, namespace=namespace), revision=1)

    assert names(view.snapshot().items) == ["a/y", "a/z", "a-b/k", "b/x"]
    assert names(view.snapshot("a").items) == ["a/y", "a/z"]
    assert view.snapshot("nowhere").items == ()


def test_an_object_says_what_it_is_and_at_which_version() -> None:
    view = complete()

    view.put(gauge("web", level=3), revision=12)

    item = view.get(WEB)
    assert item is not None
    assert item.obj["kind"] == "Gauge"
    assert item.obj["apiVersion"] == "gitops.penstock.dev/v1alpha1"
    assert item.obj["metadata"]["resourceVersion"] == str(item.version) == "12001007"


def test_nothing_happens_if_only_the_version_would_change() -> None:
    view = complete()
    view.put(gauge("web", level=3), revision=12)
    before = view.get(WEB)

    view.put(gauge("web", level=3), revision=15)
    view.remove(ObjectKey("apps", "other"), revision=16)

    assert view.get(WEB) is before
    assert len(events(view)) == 1
    assert view.clock.revision == 16, "but the position moves on, for bookmarks"


def test_an_object_of_the_same_name_is_another_one() -> None:
    view = complete()
    view.put(gauge("web", uid="1", level=1), revision=1)

    view.put(gauge("web", uid="2", level=2), revision=2)

    assert events(view) == [
        ("apps/web", "", "{'level': 1}"),
        ("apps/web", "{'level': 1}", ""),
        ("apps/web", "", "{'level': 2}"),
    ]


def test_what_is_put_before_the_view_is_complete_is_no_event() -> None:
    view = new_view()
    view.put(gauge("web"), revision=5)
    view.put(gauge("api"), revision=4)
    view.remove(WEB, revision=6)

    view.complete()

    assert names(view.snapshot().items) == ["apps/api"]
    assert events(view) == []
    assert view.snapshot().position == 6_000_007


def test_a_snapshot_is_made_once_between_changes_and_carries_the_latest_position() -> None:
    view = complete()
    view.put(gauge("web"), revision=1)
    first = view.snapshot()

    view.advance(9)

    assert view.snapshot().items is first.items
    assert view.snapshot().position == 9_000_007 > first.position


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(("put", "remove", "again")), st.integers(0, 4), st.integers(0, 2)),
    max_size=40,
)


def play(view: View, step: Step, revision: int) -> None:
    what, name, level = step
    if what == "remove":
        view.remove(ObjectKey("apps", f"n{name}"), revision=revision)
    else:
        uid = f"{name}-{level}" if what == "again" else f"{name}"
        view.put(gauge(f"n{name}", level=level, uid=uid), revision=revision)


@given(STEPS)
def test_every_moment_that_was_seen_can_be_seen_again(steps: list[Step]) -> None:
    view = complete()
    seen = [view.snapshot()]
    for revision, step in enumerate(steps, 1):
        play(view, step, revision)
        seen.append(view.snapshot())

    for snapshot in seen:
        again = view.past(snapshot.position)
        assert again is not None
        assert again.items == snapshot.items


def test_a_moment_of_another_process_or_too_long_ago_is_not_known() -> None:
    view = complete(bounds=Bounds(events=10))
    first = view.snapshot().position
    for revision in range(1, 1000):
        view.put(gauge("web", level=revision), revision=revision)

    assert view.past(first) is None
    assert view.past(500_001_008) is None


@given(STEPS, st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_history_is_bounded_in_number_and_weight(steps: list[Step], times: int) -> None:
    view = complete(bounds=Bounds(events=20, weight=200_000))
    for revision in range(1, 400 * times):
        view.put(gauge("web", level=revision, text="x" * (revision % 700)), revision=revision)
    for revision, step in enumerate(steps, 5000):
        play(view, step, revision)

    kept = view.history.read(view.history.after(view.history.floor), 100_000)

    assert kept is not None
    assert 0 < len(kept) <= 20 + 256
    assert sum(event.weight for event in kept) <= 200_000
    assert kept[0].version > view.history.floor


def test_a_slow_reader_holds_on_to_little_of_the_history() -> None:
    view = complete(bounds=Bounds(weight=1 << 30))
    for revision in range(1, 400):
        text = "x" * (100_000 if revision > 200 else 1)
        view.put(gauge("web", level=revision, text=text), revision=revision)

    small, large = view.history.some(0), view.history.some(300)

    assert small is not None
    assert large is not None
    assert len(small) == 200
    assert len(large) == 2


def test_history_ends_by_age() -> None:
    now = [0.0]
    view = complete(clock=lambda: now[0], bounds=Bounds(age=100))
    for revision in range(1, 11):
        now[0] = revision * 50.0
        view.put(gauge("web", level=revision), revision=revision)

    kept = view.history.read(view.history.after(view.history.floor), 100)

    assert kept is not None
    assert [event.at for event in kept] == [400.0, 450.0, 500.0]
    assert view.history.since == 350.0
    assert view.history.read(0, 10) is None


def test_a_waiter_is_woken_by_its_namespace_only() -> None:
    async def main() -> list[int | str]:
        view = complete()
        waiting = asyncio.create_task(view.changed("apps", within=5))
        every = asyncio.create_task(view.changed("", within=5))
        await virtualtime.settle()
        view.put(gauge("x", namespace="other"), revision=1)
        await virtualtime.settle()
        early = waiting.done()
        view.put(gauge("web"), revision=2)
        return [str(early), await every, await waiting]

    assert virtualtime.run(main) == ["False", 0, 1]


def test_who_waits_is_woken_some_at_a_time() -> None:
    async def main() -> tuple[int, set[int]]:
        view = complete()
        waiting = [asyncio.create_task(view.changed("", within=5)) for _ in range(200)]
        await virtualtime.settle()
        view.put(gauge("web"), revision=1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        early = sum(each.done() for each in waiting)
        return early, set(await asyncio.gather(*waiting))

    early, places = virtualtime.run(main)

    assert 0 < early < 200
    assert places == {0}


@pytest.mark.parametrize("order", [-1, 1], ids=["change first", "time first"])
def test_a_change_as_the_time_is_over_is_not_passed_over(order: int) -> None:
    """Both are due in one turn of the loop, and of so many waiters some are told later."""

    async def main() -> set[int]:
        view, loop = complete(), asyncio.get_running_loop()
        end = loop.time() + 5
        waiting = [
            asyncio.create_task(view.changed("", within=end - loop.time())) for _ in range(200)
        ]
        await virtualtime.settle()
        loop.call_at(end + order * 1e-10, lambda: view.put(gauge("web"), revision=1))
        return set(await asyncio.gather(*waiting))

    assert virtualtime.run(main) == {0}


def test_a_waiter_that_nobody_wakes_reads_on_at_the_end() -> None:
    async def main() -> tuple[int, int]:
        view = complete()
        waiting = asyncio.create_task(view.changed("apps", within=5))
        await virtualtime.settle()
        for revision in range(1, 4):
            view.put(gauge("x", namespace="other", level=revision), revision=revision)
        return await waiting, len(view._waiters)

    assert virtualtime.run(main) == (3, 0)


def test_a_waiter_that_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> int:
        view = complete()
        waiting = asyncio.create_task(view.changed("apps", within=5))
        await virtualtime.settle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return len(view._waiters)

    assert virtualtime.run(main) == 0


class Cache:
    """A source of the view."""

    gvk = GroupVersionKind("", "v1", "River")
    synced = False
    revision = 0
    last_error: Exception | None = None
    failing_for = 0.0


def test_the_view_tells_which_caches_are_missing() -> None:
    view, cache = new_view(), Cache()
    view.follow(cache)

    assert view.missing == ["River"]
    cache.synced = True
    assert view.missing == []


def test_a_view_begins_as_new_as_the_lists_that_it_is_made_from() -> None:
    view, cache, other = new_view(), Cache(), Cache()
    view.follow(cache)
    view.follow(other)
    cache.revision, other.revision = 20, 30
    view.put(gauge("web"), revision=10)

    view.complete()

    assert (view.birth, view.snapshot().items[0].version) == (30_000_007, 30_000_007)


def test_a_view_begins_above_all_that_was_told_before_its_process_started() -> None:
    view, cache = new_view(tag=3), Cache()
    view.follow(cache)
    cache.revision, cache.last_error = 20, OSError("no route")
    view.put(gauge("web"), revision=10)

    view.complete(started=21)

    assert view.snapshot().items[0].version == 21_000_003


def test_what_another_replica_told_is_surpassed_once() -> None:
    view = complete()
    view.put(gauge("web", level=1), revision=10)
    view.put(gauge("api", level=1), revision=20)

    lowest = view.surpass(15_001_900, "")
    again = view.surpass(15_000_003, "")

    web, api = view.get(WEB), view.get(ObjectKey("apps", "api"))
    assert lowest == again > 15_001_900
    assert web is not None
    assert web.version == lowest, "what changed before is shown above it"
    assert api is not None
    assert api.version == 20_001_007, "what changed later stays"
    assert view.snapshot().position >= lowest


def test_a_version_that_a_reader_invents_costs_no_other_namespace() -> None:
    view = complete()
    view.put(gauge("web", level=1), revision=10)
    view.put(gauge("web", level=1, namespace="other"), revision=11)
    view.advance(20)
    before = {item.key.namespace: item for item in view.snapshot().items}

    lowest = view.surpass(15_001_900, "apps")

    after = {item.key.namespace: item for item in view.snapshot().items}
    own = view.snapshot("apps")
    assert after["other"] is before["other"], "it is not made anew"
    assert after["apps"].version == lowest > 15_001_900
    assert own.items == (after["apps"],)
    assert own.position >= lowest
    assert view.surpass(15_001_900, "") > 15_001_900, "a reader of all is shown all above it"
    assert view.snapshot().items[1].version > 15_001_900


def test_pages_of_the_past_are_kept_no_longer_than_the_history() -> None:
    view = complete(bounds=Bounds(events=10))
    revision = 0
    for generation in range(40):
        for number in range(10):
            revision += 1
            view.put(gauge(f"n{number}", namespace="paged", level=generation), revision=revision)
            if not number:
                position = view.position()
        assert view.past(position) is not None, "a page of before the last changes"
    while view.history.floor <= position:
        revision += 1
        view.put(gauge("n0", namespace="paged", level=revision), revision=revision)

    stale = [
        found.position
        for found in gc.get_objects()
        if isinstance(found, Snapshot)
        and found.within("paged").items
        and found.position < view.history.floor
    ]

    assert stale == []
    assert view.past(position) is None


def test_the_lowest_versions_of_many_namespaces_become_one() -> None:
    view = complete()
    view.put(gauge("web", level=1), revision=10)
    view.advance(20)

    lowest = [view.surpass(15_000_000 + number * 1000, f"n{number}") for number in range(2000)]
    view.put(gauge("web", level=1, namespace="n0"), revision=10)

    assert view.surpass(1, "n0") >= lowest[0]
    assert view.surpass(1, "never") >= lowest[1000], "what is forgotten is surpassed for all"


def test_what_a_surpassed_version_was_like_is_kept_as_json() -> None:
    view = complete()
    view.put(gauge("web", level=1), revision=10)
    (event,) = view.history.read(0, 1) or ()
    view.surpass(10_001_900, "apps")

    shown = view.get(WEB)

    assert event.new is not None
    assert shown is not None
    for item in (shown, event.new):
        assert item.obj == item.obj
        assert item.obj is not item.obj, "decoded when somebody asks"


def test_versions_claim_nothing_new_while_a_source_is_cut_off() -> None:
    view, cache = complete(), Cache()
    view.follow(cache)
    view.advance(10)
    cache.last_error = OSError("no route")

    view.put(gauge("web", level=1), revision=20)
    view.advance(30)
    behind = view.clock.revision
    cache.last_error = None
    view.advance(31)

    assert (behind, view.clock.revision) == (10, 31)


def test_a_cache_that_hears_of_nothing_for_long_is_behind() -> None:
    view, cache, other = complete(), Cache(), Cache()
    view.follow(cache)
    view.follow(other)

    told = []
    for seconds in (0.0, 29.0, 31.0, 0.0):
        cache.failing_for = seconds
        told.append(view.behind)

    assert told == [[], [], ["River"], []]


@pytest.mark.parametrize("tag", [-1, 1000])
def test_a_tag_has_three_digits(tag: int) -> None:
    with pytest.raises(ValueError, match="a number below 1000"):
        new_view(tag=tag)
