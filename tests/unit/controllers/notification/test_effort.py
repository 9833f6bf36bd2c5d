"""The Alerts of one namespace cannot take the time of those of another."""

from controllers.notification.events.effort import SECONDS, Effort


class Clock:
    """CPU time that passes when it is told."""

    def __init__(self) -> None:
        self.now = 7.0

    def __call__(self) -> float:
        return self.now


def test_what_one_namespace_has_taken_is_left_to_the_others() -> None:
    clock = Clock()
    effort = Effort(clock)

    with effort.of("hostile") as until:
        clock.now = until + 1.0

    assert not effort.left("hostile")
    assert effort.left("sound")
    assert effort.late == {"hostile"}


def test_what_the_alerts_of_a_namespace_take_is_added_up() -> None:
    clock = Clock()
    effort = Effort(clock)

    with effort.of("team"):
        clock.now += SECONDS * 3 / 4
    assert effort.left("team")
    with effort.of("team") as until:
        assert until < clock.now + SECONDS / 2
        clock.now = until + SECONDS / 10

    assert not effort.left("team")
