"""Ask the API server, with patience: a review that fails for the moment is tried again.

Times are upstream's (apiserver ``util/webhook``): ten seconds in all, five attempts, the first
pause half a second, each half as long again.
"""

import asyncio
from typing import Final, Protocol

from toolkit.kube.errors import ApiError, UnreachableError
from toolkit.objects import Json

SECONDS: Final = 10.0
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.5
_FACTOR: Final = 1.5
_AT_ONCE: Final = 64
"""Questions to the API server at a time."""


class Api(Protocol):
    """The API server, as ``toolkit.kube.client.Client`` reaches it."""

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        """Send a request and return the decoded answer."""
        ...


class Reviews:
    """Posts reviews; one object for all, so that their number is bounded."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def post(self, group: str, kind: str, resource: str, spec: Json) -> Json:
        """Return the ``status`` of a review.

        Raises:
            ApiError: there is no answer, even after some time.
        """
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        path = f"/apis/{group}/v1/{resource}"
        try:
            async with asyncio.timeout(SECONDS), self._places:
                answer = await self._asked(path, body)
        except TimeoutError as exc:
            raise UnreachableError(f"{kind}: no answer within {SECONDS:.0f}s") from exc
        status: Json = answer.get("status") or {}
        return status

    async def _asked(self, path: str, body: Json) -> Json:
        pause = _PAUSE
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._api.request("POST", path, body=body)
            except ApiError as exc:
                if not _passing(exc):
                    raise
            await asyncio.sleep(pause)
            pause *= _FACTOR
        return await self._api.request("POST", path, body=body)


def _passing(exc: ApiError) -> bool:
    return isinstance(exc, UnreachableError) or exc.status == 429 or exc.status >= 500
