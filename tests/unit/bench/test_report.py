"""The bench's table and document."""

import pytest

from bench import report
from bench.measure import Phase


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0)]
)
def test_quantile_is_the_value_of_nearest_rank(share: float, value: float) -> None:
    assert report.quantile([4.0, 1.0, 3.0, 2.0], share) == value


def test_what_was_not_measured_is_a_dash() -> None:
    row = report.render([Phase(name="create", count=2, wall=1.5)], title="N").splitlines()[-1]

    assert row.split() == ["create", "1.5", "s", *"-------", "0.0", "0"]


def test_floor_stands_beside_its_phase_with_the_ratio_of_both() -> None:
    floor = Phase(name="floor", count=2, wall=2.0, control_plane_cpu=4.0, latencies=(1.0,))
    phase = Phase(name="create", count=2, wall=5.0, control_plane_cpu=6.0, floor=floor)

    row = report.render([phase], title="N").splitlines()[-1]
    (fields,) = report.document([phase], count=2)["phases"]

    assert "2.0 s / 4.0 s   2.5 / 1.5 " in row
    assert (fields["floor"]["wall"], fields["floor"]["p50"]) == (2.0, 1.0)


def test_floor_that_took_nothing_has_no_ratio() -> None:
    phase = Phase(name="create", count=2, wall=5.0, floor=Phase(name="floor", count=2))

    row = report.render([phase], title="N").splitlines()[-1]

    assert "- / -" in row


def test_requests_of_the_bench_itself_are_taken_off() -> None:
    phase = Phase(name="create", count=10, requests={"POST": 70, "GET": 40}, own_requests=10)

    assert phase.all_requests == 100
    assert phase.requests_each == 10.0


def test_requests_of_the_controllers_count_where_they_are_known() -> None:
    phase = Phase(name="create", count=10, requests={"POST": 900}, controller_requests=80)

    assert phase.requests_each == 8.0


def test_document_has_quantiles_and_not_every_latency() -> None:
    phase = Phase(name="drift heal", count=2, latencies=(0.2, 0.1))

    (fields,) = report.document([phase], count=2)["phases"]

    assert (fields["p50"], fields["p99"]) == (0.1, 0.2)
    assert "latencies" not in fields


def test_what_is_compared_is_told_as_difference_and_ratio() -> None:
    phase = Phase(
        name="all: pods",
        count=2,
        controller_cpu=0.004,
        latencies=(0.006, 0.009),
        beside=(0.004, 0.006),
    )

    (row,) = report.render([phase], title="N", columns=report.COMPARED).splitlines()[3:]

    cells = [cell for cell in row.split("  ") if cell]
    assert [cell.strip() for cell in cells] == [
        *("all: pods", "6.00 ms", "9.00 ms", "4.00 ms", "6.00 ms", "2.00 ms", "1.50", "1.50"),
        *("2.00 ms", "-"),
    ]


def test_comparison_without_anything_beside_is_a_dash() -> None:
    phase = Phase(name="all: pods", count=2, latencies=(0.006,))

    (row,) = report.render([phase], title="N", columns=report.COMPARED).splitlines()[3:]

    assert row.split() == ["all:", "pods", "6.00", "ms", "6.00", "ms", *"-------"]
