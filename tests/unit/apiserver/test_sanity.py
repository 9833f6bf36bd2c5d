"""Requests that mean nothing, or two things, are refused before anybody reads them."""

import pytest
from aiohttp.test_utils import make_mocked_request

from apiserver import sanity
from apiserver.status import StatusError


@pytest.mark.parametrize(
    ("path", "headers", "code", "said"),
    [
        ("/x?limit=1&limit=2", {}, 400, "limit is given more than once"),
        ("/x?revision=a&revision=b", {}, 400, "revision is given more than once"),
        ("/x?fieldValidation=Strict&fieldValidation=Ignore", {}, 400, "more than once"),
        ("/x%00y", {}, 400, "the path holds something that is not text"),
        ("/x\u00e9", {}, 400, "the path holds something that is not text"),
        ("/x?labelSelector=%00", {}, 400, "the query holds something that is not text"),
        ("/x", {"Content-Length": str(10 << 20)}, 413, "larger than"),
    ],
)
def test_a_request_that_is_malformed_is_refused(
    path: str, headers: dict[str, str], code: int, said: str
) -> None:
    with pytest.raises(StatusError, match=said) as caught:
        sanity.check(make_mocked_request("GET", path, headers=headers))

    assert caught.value.code == code


def test_a_parameter_that_may_repeat_is_let_through() -> None:
    sanity.check(make_mocked_request("GET", "/x?limit=1&other=a&other=b"))
