"""Tokens of our own account for Penstock's other processes (TokenRequest).

Each is for one audience, so that its receiver can use it nowhere else.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from apiserver.registration import NAME
from toolkit.kube import rbac
from toolkit.kube.manager import Manager
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache

Token = Callable[[], Awaitable[str]]
"""Returns a token for an audience; raises ``PenstockError``."""

PERMISSIONS: Final = rbac.own_token(NAME)
"""In our own namespace."""


def of(manager: Manager, audience: str) -> Token:
    """Return the function that returns tokens for the audience, cached while they are young."""
    tokens = ServiceAccountTokens(manager.client, cache=TokenCache(size=1))
    return tokens.lasting(manager.namespace, NAME, audience)
