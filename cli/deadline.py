"""``--timeout``: how long a command may take, and what it says when that time has passed.

A command that asks for something once must end in time as a whole. One with several steps, such as
an installation, gives the time to each wait and each request, because the number of steps is not
the user's to know. One that follows changes gives it to the requests, and to the first answer.

Waits end with the time itself and say what they waited for; everything else ends a moment later.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, Literal, TypeVar

from cli import errors

T = TypeVar("T")
Pace = Literal["whole", "steps", "follow"]

_ATTEMPT: Final = 30.0
_LATER: Final = 1.0


def attempt(seconds: float) -> float:
    """Return the seconds that one attempt of a request to the API server may take."""
    return min(_ATTEMPT, seconds)


async def whole(work: Awaitable[T], seconds: float, *, silent: str) -> T:
    """Return the result of a command; ``silent`` names what is slow if it does not end.

    Raises:
        DeadlineError: it takes longer.
    """
    return await within(work, seconds + min(_LATER, seconds / 10), told=seconds, what=silent)


async def within(work: Awaitable[T], seconds: float, *, what: str, told: float | None = None) -> T:
    """Return the result of ``work``; the message says ``told``, or else ``seconds``.

    Raises:
        DeadlineError: it takes longer.
    """
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            return await work
    except TimeoutError as exc:
        if not scope.expired():
            raise
        limit = seconds if told is None else told
        raise errors.DeadlineError(f"{what} within {limit:g}s (--timeout)") from exc
