"""What the server's clock is known to show at least."""

import pytest

from toolkit.apply.clock import ServerClock
from toolkit.kube import errors
from toolkit.objects import Json


class Time:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Answers a SelfSubjectReview with the next stamp; None is a refusal."""

    def __init__(self, *stamps: str | None) -> None:
        self._stamps = iter(stamps)
        self.asked = 0

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        assert (method, body["kind"]) == ("POST", "SelfSubjectReview")
        assert path.endswith("/selfsubjectreviews")
        self.asked += 1
        stamp = next(self._stamps)
        if stamp is None:
            raise errors.ForbiddenError("no")
        return {"metadata": {"creationTimestamp": stamp}}


async def _clock(time: Time) -> ServerClock:
    clock = ServerClock(monotonic=time)
    await clock.learn(Server("2026-01-01T12:00:00Z"))
    return clock


@pytest.mark.parametrize(
    ("stamp", "past"),
    [
        ("2026-01-01T11:58:59Z", True),
        ("2026-01-01T11:59:00Z", False),
        ("2026-01-01T12:00:00Z", False),
        ("2030-01-01T00:00:00Z", False),
        ("", False),
        ("yesterday", False),
    ],
)
async def test_only_stamps_well_before_the_servers_time_are_past(
    stamp: str,
    past: bool,  # noqa: FBT001 - a table
) -> None:
    clock = await _clock(Time())

    assert clock.past(stamp) is past


async def test_time_goes_on() -> None:
    time = Time()
    clock = await _clock(time)

    time.now += 61

    assert clock.past("2026-01-01T12:00:00Z")


def test_nothing_is_past_before_the_server_was_asked() -> None:
    assert not ServerClock().past("1970-01-01T00:00:00Z")


async def test_the_server_is_asked_once_an_hour() -> None:
    time, server = Time(), Server("2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z")
    clock = ServerClock(monotonic=time)

    await clock.learn(server)
    time.now += 3599
    await clock.learn(server)
    asked_within = server.asked
    time.now += 2
    await clock.learn(server)

    assert (asked_within, server.asked) == (1, 2)


async def test_a_refusal_is_asked_again_after_a_minute() -> None:
    time, server = Time(), Server(None, "2026-01-01T12:00:00Z")
    clock = ServerClock(monotonic=time)

    await clock.learn(server)
    await clock.learn(server)
    asked_at_once = server.asked
    time.now += 61
    await clock.learn(server)

    assert asked_at_once == 1
    assert clock.past("2026-01-01T11:00:00Z")
