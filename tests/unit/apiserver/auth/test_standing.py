"""A watch lasts only while its reader may watch."""

import asyncio

import pytest

from apiserver.auth import standing
from apiserver.status import StatusError
from tests.fakes import virtualtime


class Rights:
    """Answers one after the other; the last one stays."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.asked = 0

    async def authorize(self) -> None:
        self.asked += 1
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if code != 200:
            raise StatusError(code, "Reason", "words")


def test_a_withdrawn_right_ends_a_watch_and_a_lost_answer_does_not() -> None:
    rights = Rights(200, 500, 200, 403)

    async def watch() -> float:
        began = asyncio.get_running_loop().time()
        with pytest.raises(StatusError, match="withdrawn") as ended:
            async with standing.held(rights.authorize):
                await asyncio.Event().wait()
        assert (ended.value.code, ended.value.reason) == (504, "Timeout")
        return asyncio.get_running_loop().time() - began

    lasted = virtualtime.run(watch)

    assert rights.asked == 4
    assert 3 * standing.SECONDS < lasted < 5 * standing.SECONDS


def test_nobody_is_asked_about_once_the_watch_is_over() -> None:
    rights = Rights(403)

    async def watch() -> None:
        async with standing.held(rights.authorize):
            await asyncio.sleep(1)
        await asyncio.sleep(10 * standing.SECONDS)

    virtualtime.run(watch)

    assert rights.asked == 0
