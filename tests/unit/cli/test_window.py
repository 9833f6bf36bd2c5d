"""What the aggregated API answers is told in its own words, unless it is not there."""

from typing import Any, cast

import pytest

from cli import errors, session, window
from toolkit.kube import errors as kube_errors


class Refusing:
    """Answers every read with one error."""

    def __init__(self, error: kube_errors.ApiError) -> None:
        self._error = error

    async def read(self, *_: Any, **__: Any) -> bytes:
        raise self._error


def opened(code: int, body: dict[str, Any]) -> session.Session:
    api = Refusing(kube_errors.from_status(code, body))
    return session.Session(api=cast("Any", api), namespace="apps", timeout=1)


@pytest.mark.parametrize(
    ("code", "reason"), [(404, "NotFound"), (503, "ServiceUnavailable"), (422, "Invalid")]
)
async def test_what_it_says_is_told_as_it_is(code: int, reason: str) -> None:
    said = "GitRepository/apps/fleet has no revision 'x'"

    with pytest.raises(errors.UsageError, match=rf"^{said}$"):
        await window.read(opened(code, {"reason": reason, "message": said}), "/apis")


@pytest.mark.parametrize("code", [404, 503])
async def test_an_answer_of_the_api_server_alone_says_that_nothing_is_there(code: int) -> None:
    with pytest.raises(errors.FailedError, match=r"does not serve gitops\.penstock\.dev"):
        await window.read(opened(code, {}), "/apis")
