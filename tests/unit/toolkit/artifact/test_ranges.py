"""How a request is answered follows from its headers."""

import pytest

from toolkit.artifact.ranges import Plan, plan

ETAG = '"sha256:ab"'
MODIFIED = 1_700_000_000.75
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"
EARLIER = "Tue, 14 Nov 2023 22:13:19 GMT"
WHOLE = Plan(status=200, length=100)
UNCHANGED = Plan(status=304)


def answer(**headers: str) -> Plan:
    spelled = {name.replace("_", "-"): value for name, value in headers.items()}
    return plan(spelled, etag=ETAG, modified=MODIFIED, size=100)


@pytest.mark.parametrize("tags", [ETAG, f"W/{ETAG}", f'"x", {ETAG}', "*"])
def test_a_known_tag_spares_the_body(tags: str) -> None:
    assert answer(If_None_Match=tags) == UNCHANGED


@pytest.mark.parametrize("tags", ['"x"', "sha256:ab", ""])
def test_another_tag_does_not(tags: str) -> None:
    assert answer(If_None_Match=tags) == WHOLE


def test_a_tag_makes_dates_irrelevant() -> None:
    assert answer(If_None_Match='"x"', If_Modified_Since=DATE) == WHOLE


@pytest.mark.parametrize(
    ("date", "expected"), [(DATE, UNCHANGED), (EARLIER, WHOLE), ("nonsense", WHOLE), ("", WHOLE)]
)
def test_a_date_is_compared_in_seconds(date: str, expected: Plan) -> None:
    assert answer(If_Modified_Since=date) == expected


@pytest.mark.parametrize(
    ("header", "start", "length"),
    [("0-9", 0, 10), ("90-", 90, 10), ("-10", 90, 10), ("-1000", 0, 100), ("99-200", 99, 1)],
)
def test_one_range_is_cut_out(header: str, start: int, length: int) -> None:
    assert answer(Range=f"bytes={header}") == Plan(status=206, start=start, length=length)


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=999999-"])
def test_a_range_behind_the_end_is_refused(header: str) -> None:
    assert answer(Range=header).status == 416


@pytest.mark.parametrize(
    "header", ["bytes=0-1,3-4", "lines=1-2", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "x"]
)
def test_what_is_not_one_range_gets_the_whole(header: str) -> None:
    assert answer(Range=header) == WHOLE


@pytest.mark.parametrize(
    ("validator", "status"), [(ETAG, 206), (DATE, 206), ('"x"', 200), (EARLIER, 200)]
)
def test_a_range_is_of_the_version_that_was_begun(validator: str, status: int) -> None:
    assert answer(Range="bytes=0-9", If_Range=validator).status == status
