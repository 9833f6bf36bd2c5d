"""The order in which certificates change hands, with the clock in the test's hand."""

import datetime as dt

from certs import authority, rotation
from certs.rotation import Situation, State, Terms

BEGIN = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
TERMS = Terms(authority=300 * DAY, leaf=30 * DAY, overlap=dt.timedelta(hours=1))
HOSTS = ("webhook.test.svc",)


def situation(after: dt.timedelta, *, trusted: bool = False, asked: str = "") -> Situation:
    return Situation(now=BEGIN + after, hosts=HOSTS, trusted=trusted, asked=asked)


def step(state: State | None, now: Situation) -> State | None:
    return rotation.step(state, now, TERMS, name="test")


def must(state: State | None, now: Situation) -> State:
    following = step(state, now)
    assert following is not None
    return following


def signs(state: State) -> bool:
    return authority.vouches(state.authority.certificate, state.leaf.certificate)


def test_the_first_step_makes_an_authority_and_a_leaf() -> None:
    state = must(None, situation(0 * DAY))

    assert signs(state)
    assert authority.facts(state.leaf.certificate).hosts == set(HOSTS)
    assert step(state, situation(DAY)) is None


def test_a_leaf_is_renewed_by_the_same_authority() -> None:
    state = must(None, situation(0 * DAY))

    renewed = must(state, situation(20 * DAY))

    assert renewed.authority == state.authority
    assert renewed.leaf != state.leaf
    assert signs(renewed)


def test_a_new_authority_signs_nothing_before_it_is_trusted() -> None:
    state = must(None, situation(0 * DAY))
    state = must(state, situation(199 * DAY))  # the leaf

    announced = must(state, situation(200 * DAY))
    assert announced.next is not None
    assert announced.leaf == state.leaf
    assert authority.holds(announced.bundle, announced.next.certificate)

    # the overlap is over, but one client does not trust it yet
    assert step(announced, situation(203 * DAY)) is None
    # it is trusted, but the overlap is not over
    early = situation(200 * DAY + TERMS.overlap / 2, trusted=True)
    assert step(announced, early) is None

    promoted = must(announced, situation(200 * DAY + TERMS.overlap, trusted=True))
    assert promoted.authority == announced.next
    assert signs(promoted)


def test_the_old_authority_stays_trusted_for_the_overlap() -> None:
    first = must(None, situation(0 * DAY, asked=""))
    announced = must(first, situation(DAY, asked="now"))
    promoted = must(announced, situation(2 * DAY, trusted=True, asked="now"))

    assert authority.holds(promoted.bundle, first.authority.certificate)
    assert step(promoted, situation(2 * DAY + TERMS.overlap / 2, asked="now")) is None
    settled = must(promoted, situation(2 * DAY + TERMS.overlap, asked="now"))
    assert not authority.holds(settled.bundle, first.authority.certificate)
    assert settled.bundle == settled.authority.certificate
    assert step(settled, situation(3 * DAY, asked="now")) is None


def test_a_request_turns_the_authority_once() -> None:
    state = must(None, situation(0 * DAY, asked="one"))

    assert step(state, situation(DAY, asked="one")) is None
    assert must(state, situation(DAY, asked="two")).next is not None


def test_what_expired_while_nobody_ran_is_made_anew() -> None:
    state = must(None, situation(0 * DAY))

    fresh = must(state, situation(400 * DAY))

    assert fresh.authority != state.authority
    assert fresh.bundle == fresh.authority.certificate
    assert signs(fresh)


def test_an_announced_authority_takes_over_from_one_that_expired() -> None:
    state = must(None, situation(0 * DAY))
    state = must(state, situation(250 * DAY))
    announced = must(state, situation(251 * DAY))

    promoted = must(announced, situation(301 * DAY))

    assert promoted.authority == announced.next


def test_replicas_that_want_different_hosts_do_not_take_turns() -> None:
    state = must(None, situation(0 * DAY))
    other = Situation(now=BEGIN + DAY, hosts=("webhook.other.svc",))

    both = must(state, other)

    assert authority.facts(both.leaf.certificate).hosts == {*HOSTS, *other.hosts}
    assert step(both, other) is None
    assert step(both, situation(DAY)) is None


def test_a_leaf_never_outlives_its_authority() -> None:
    state = must(None, situation(0 * DAY))
    late = must(state, situation(290 * DAY))

    ends = authority.facts(late.leaf.certificate).ends
    assert ends <= authority.facts(late.authority.certificate).ends


def test_the_next_look_is_when_something_is_due() -> None:
    state = must(None, situation(0 * DAY))
    announced = must(state, situation(DAY, asked="now"))

    # two thirds of the leaf's life, which begins five minutes early
    assert 19 * DAY < rotation.due(state, TERMS, now=BEGIN) < 21 * DAY
    assert rotation.due(announced, TERMS, now=BEGIN + DAY) == TERMS.overlap
    assert rotation.due(announced, TERMS, now=BEGIN + 9 * DAY) == dt.timedelta(seconds=1)
