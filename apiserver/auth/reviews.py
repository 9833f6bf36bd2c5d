"""Ask the API server, with patience: a review that fails for the moment is tried again.

Times are upstream's (apiserver ``util/webhook``): ten seconds in all, five attempts, the first
pause half a second, each half as long again.
"""

import asyncio
from typing import Final

from toolkit.kube.errors import ApiError, UnreachableError
from toolkit.kube.reviews import Api
from toolkit.objects import Json

SECONDS: Final = 10.0
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.5
_FACTOR: Final = 1.5
_AT_ONCE: Final = 64
"""Questions to the API server at a time."""


class Reviews:
    """An ``Api`` with patience, and a bound to how many questions it asks at a time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        """Return the answer to a review.

        Raises:
            ApiError: there is no answer, even after some time.
        """
        try:
            async with asyncio.timeout(SECONDS), self._places:
                return await self._asked(method, path, body)
        except TimeoutError as exc:
            raise UnreachableError(f"{body['kind']}: no response within {SECONDS:.0f}s") from exc

    async def _asked(self, method: str, path: str, body: Json) -> Json:
        pause = _PAUSE
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._api.request(method, path, body=body)
            except ApiError as exc:
                if not _passing(exc):
                    raise
            await asyncio.sleep(pause)
            pause *= _FACTOR
        return await self._api.request(method, path, body=body)


def _passing(exc: ApiError) -> bool:
    return isinstance(exc, UnreachableError) or exc.status == 429 or exc.status >= 500
