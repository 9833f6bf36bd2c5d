"""What is asked about our health, and what is answered."""

import pytest
from aiohttp.test_utils import make_mocked_request

from apiserver import health
from apiserver.health import Check, Health

BROKEN = Check(name="broken", problem=lambda: "out of order")
PING = Check(name="ping", problem=health.ping)
HEALTH = Health(live=(PING,), ready=(BROKEN,))


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/healthz", 200, "ok"),
        ("/livez/ping", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/readyz", 500, "[+]ping ok\n[-]broken failed: out of order\nreadyz check failed\n"),
        ("/readyz/broken", 500, "out of order\n"),
        ("/readyz?exclude=broken", 200, "ok"),
        ("/readyz?exclude=ping&exclude=broken", 200, "ok"),
        ("/livez/broken", 404, "404 page not found\n"),
    ],
)
def test_health_is_told_as_upstream_does(path: str, status: int, text: str) -> None:
    answer = HEALTH.answer(make_mocked_request("GET", path))

    assert (answer.status, answer.text) == (status, text)


def test_caches_count_for_half_a_minute_and_discovery_after_that() -> None:
    now = [100.0]
    check = health.fill_check(lambda: ["toys"], now=lambda: now[0])

    first = check.problem()
    now[0] += 30.0

    assert first == "not complete yet: toys"
    assert check.problem() == ""


@pytest.mark.parametrize("path", ["/livezz", "/apis", "/healthz.json"])
def test_other_paths_are_no_health(path: str) -> None:
    assert not health.is_health(path)
