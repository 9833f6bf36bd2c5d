"""Versions grow, are never handed out twice, and tell when a revision was passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver import position
from apiserver.position import Clock
from apiserver.status import StatusError


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def clock(tag: int = 7) -> Clock:
    return Clock(tag=tag, time=Time())


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=60))
def test_versions_grow_whatever_revisions_come(steps: list[tuple[bool, int]]) -> None:
    made, seen = clock(), []

    for change, revision in steps:
        if change:
            seen.append(made.tick(revision))
        else:
            made.advance(revision)

    assert seen == sorted(set(seen))
    assert all(version % 1000 == 7 for version in seen)
    assert made.revision >= max((revision for _, revision in steps), default=0)


def test_a_version_names_revision_count_and_replica() -> None:
    made = clock(tag=42)

    versions = [made.tick(1234), made.tick(1234), made.tick(1200), made.tick(1235)]

    assert versions == [1234001042, 1234002042, 1234003042, 1235001042]


def test_more_changes_than_a_revision_has_numbers_run_over() -> None:
    made = clock()

    versions = [made.tick(5) for _ in range(2500)]

    assert versions == sorted(set(versions))
    assert made.revision == 7


def test_a_version_is_known_only_to_the_process_that_made_it() -> None:
    ours, theirs = clock(), clock()
    version = ours.tick(9)

    assert ours.issued(version)
    assert not theirs.issued(version)
    assert not ours.issued(version + 1000)


def test_a_revision_was_passed_when_it_or_a_later_one_came() -> None:
    time = Time()
    made = Clock(tag=1, time=time)
    for revision, moment in ((10, 1.0), (20, 2.0), (30, 3.0)):
        time.now = moment
        made.advance(revision)

    assert [made.passed(revision) for revision in (10, 11, 20, 21, 30, 31)] == [
        1.0,
        2.0,
        2.0,
        3.0,
        3.0,
        None,
    ]
    assert made.passed(9) is None, "what was before the first revision is not known"


def test_moments_close_together_count_as_the_first_of_them() -> None:
    time = Time()
    made = Clock(tag=1, time=time)
    for revision, moment in ((1, 1.0), (10, 2.0), (20, 2.1), (30, 2.2)):
        time.now = moment
        made.advance(revision)

    assert made.passed(30) == 2.0


def test_what_is_remembered_of_moments_is_bounded() -> None:
    time = Time()
    made = Clock(tag=1, time=time)
    for revision in range(20_000):
        time.now += 1
        made.advance(revision)

    assert made.passed(1) is None
    assert made.passed(19_999) == time.now
    assert len(made._moments) <= 4_000


@given(st.integers(1, 20), st.integers(0, 990), st.integers(0, 999))
def test_beyond_another_replicas_version_is_a_number_of_nobody(
    revision: int, count: int, tag: int
) -> None:
    made = clock()
    for _ in range(5):
        made.tick(revision)
    theirs = revision * 1_000_000 + count * 1_000 + tag

    stamp = made.beyond(theirs)

    assert stamp > theirs
    assert not made.issued(stamp)
    assert made.tick(0) > stamp
    assert made.revision == revision, "no client moves the clock to another revision"


def test_a_client_cannot_push_the_clock_ahead_of_etcd() -> None:
    made = clock()
    made.tick(5)

    for _ in range(3):
        with pytest.raises(StatusError) as refused:
            made.beyond(5_999_000)
        assert refused.value.code == 410

    assert made.revision == 5


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("0", 0), ("12", 12), (str(2**64 - 1), 2**64 - 1)]
)
def test_a_resource_version_is_a_decimal_number(text: str, value: int) -> None:
    assert position.parse(text) == value


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "0x1", "٣", str(2**64), "9" * 5000, "1 "])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(StatusError, match="invalid resource version") as refused:
        position.parse(text)

    assert refused.value.code == 400
    assert len(refused.value.message) < 300
