"""Users with a bearer token: the API server knows whose it is (``TokenReview``).

A token is remembered as a hash, for ten seconds, be the answer yes or no; a failure is not.
"""

import hashlib
import time
from collections.abc import Callable
from typing import Final

from apiserver.auth.memory import Memory
from apiserver.auth.reviews import Reviews
from apiserver.call import User

_REMEMBERED: Final = 4096
_SECONDS: Final = 10.0
_LONGEST: Final = 32 << 10


def bearer(authorization: str) -> str:
    """Return the token of an ``Authorization`` header; empty if it has none."""
    scheme, _, rest = authorization.strip().partition(" ")
    return rest.strip().partition(" ")[0] if scheme.lower() == "bearer" else ""


class Tokens:
    """Asks whose tokens are."""

    def __init__(self, reviews: Reviews, *, now: Callable[[], float] = time.monotonic) -> None:
        self._reviews = reviews
        self._users: Memory[User | None] = Memory(size=_REMEMBERED, seconds=_SECONDS, now=now)

    async def user(self, token: str) -> User | None:
        """Return whose token it is, or None if it is nobody's.

        Raises:
            ApiError: the API server does not answer.
        """
        if len(token) > _LONGEST or not token.isascii():
            return None
        key = hashlib.sha256(token.encode()).digest()
        known = self._users.recall(key)
        if known is not None:
            return known.value
        return self._users.keep(key, await self._review(token))

    async def _review(self, token: str) -> User | None:
        status = await self._reviews.post(
            "authentication.k8s.io", "TokenReview", "tokenreviews", {"token": token}
        )
        user = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return None
        return User(
            name=str(user["username"]),
            uid=str(user.get("uid") or ""),
            groups=tuple(user.get("groups") or ()),
            extra=user.get("extra") or {},
        )
