"""Two contents of one object do not go into one second."""

import pytest

from toolkit.apply.pace import Pace

CONFIG, OTHER = ("", "ConfigMap", "shop", "conf"), ("", "ConfigMap", "shop", "other")


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pace = Pace(monotonic=lambda: self.now, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time() -> Time:
    made = Time()
    made.now += 10
    return made


async def test_another_content_waits_for_the_next_second(time: Time) -> None:
    time.pace.note(CONFIG, "one")
    time.now += 0.25

    await time.pace.wait(CONFIG, "two")

    assert time.now == 111.0


async def test_the_same_content_goes_at_once(time: Time) -> None:
    time.pace.note(CONFIG, "one")

    await time.pace.wait(CONFIG, "one")
    await time.pace.wait(OTHER, "two")

    assert time.now == 110.0


async def test_what_was_written_long_ago_does_not_count(time: Time) -> None:
    time.pace.note(CONFIG, "one")
    time.now += 2
    time.pace.note(OTHER, "one")

    await time.pace.wait(CONFIG, "two")

    assert time.now == 112.0


async def test_what_an_earlier_process_wrote_may_be_of_this_second() -> None:
    time = Time()

    await time.pace.wait(CONFIG, "one")

    assert time.now == 101.0
