"""What the bench makes of the gate's own metrics, as the gate writes them."""

import prometheus_client

from bench import reviews
from bench.reviews import Reviews
from webhooks import metrics


def page() -> str:
    return prometheus_client.generate_latest().decode()


def test_reviews_of_all_plugins_and_decisions_are_added_up() -> None:
    before = reviews.parsed(page())
    for decision, seconds in (("allowed", 0.005), ("allowed", 0.01), ("denied", 0.02)):
        metrics.REVIEWS.labels("bench-a", "CREATE", decision).observe(seconds)
    metrics.REVIEWS.labels("bench-b", "UPDATE", "changed").observe(0.005)

    found = reviews.parsed(page()).since(before)

    assert (found.count, round(found.seconds, 6), found.within) == (4.0, 0.04, 3.0)


def test_pages_of_several_processes_are_added_up() -> None:
    metrics.REVIEWS.labels("bench-c", "CREATE", "allowed").observe(0.005)
    one = reviews.parsed(page())

    assert reviews.parsed(page(), one).count == 2 * one.count > 0


def test_reviews_are_told_by_request() -> None:
    before = Reviews(count=2.0, seconds=1.0, within=1.0)
    found = Reviews(count=12.0, seconds=1.05, within=10.0).since(before)

    assert found.told(5) == "2.0 reviews of 5.00 ms, 90.0% below 10 ms"


def test_nobody_who_was_asked_is_told() -> None:
    assert Reviews().told(5) == "not asked"
