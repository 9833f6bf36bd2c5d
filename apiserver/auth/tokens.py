"""Authenticate bearer tokens with the API server (``TokenReview``).

The answer, positive or negative, is cached for ten seconds by a hash of the token; an error is not.
"""

import hashlib
import time
from collections.abc import Callable
from typing import Final

from toolkit.kube import reviews
from toolkit.kube.memory import Memory
from toolkit.kube.reviews import Api, User

_REMEMBERED: Final = 4096
_SECONDS: Final = 10.0
_LONGEST: Final = 32 << 10


def bearer(authorization: str) -> str:
    """Return the token of an ``Authorization`` header; empty if it has none."""
    scheme, _, rest = authorization.strip().partition(" ")
    return rest.strip().partition(" ")[0] if scheme.lower() == "bearer" else ""


class Tokens:
    """Asks whose tokens are."""

    def __init__(self, api: Api, *, now: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: Memory[User | None] = Memory(size=_REMEMBERED, now=now)

    async def user(self, token: str) -> User | None:
        """Return the user of a token; None if it is invalid.

        Raises:
            ApiError: the API server does not answer.
        """
        if len(token) > _LONGEST or not token.isascii():
            return None
        key = hashlib.sha256(token.encode()).digest()
        known = self._users.recall(key)
        if known is not None:
            return known.value
        found = await reviews.whose(self._api, token)
        return self._users.keep(key, found, seconds=_SECONDS)
