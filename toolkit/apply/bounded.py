"""Do the same for many objects, a few at a time, and collect the errors of the API server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from toolkit.kube import errors

T = TypeVar("T")
R = TypeVar("R")

_GENERAL = (errors.UnreachableError, errors.UnauthorizedError, errors.TooManyRequestsError)


async def each(
    items: Sequence[T], do: Callable[[T], Awaitable[R]], *, limit: int
) -> list[R | errors.ApiError]:
    """Return the result or the API error for every item, in their order."""
    slots = asyncio.Semaphore(limit)

    async def one(item: T) -> R | errors.ApiError:
        async with slots:
            try:
                return await do(item)
            except errors.ApiError as exc:
                return exc

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    return [task.result() for task in tasks]


def raise_general(results: Iterable[object]) -> None:
    """Raise a failure that is not about one object: no answer, no credentials, overload."""
    for result in results:
        if isinstance(result, _GENERAL):
            raise result
