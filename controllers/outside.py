"""The way to servers and clouds that components share: one pool of connections, one of tokens."""

from dataclasses import dataclass
from datetime import timedelta

from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.tokens import GATE, ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Http


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """``tokens`` are those of ServiceAccounts, which clouds and other clusters know.

    ``cache`` holds the credentials that were given.
    """

    http: Http
    cloud: Cloud
    tokens: ServiceAccountTokens
    cache: TokenCache


async def connect(manager: Manager, options: Options, *, default_account: str = "") -> Outside:
    """Open the way; it is closed with the process.

    ``default_account`` is whom objects are at a cloud that name no account, instead of us.
    """
    http = await manager.until_end.enter_async_context(Http())
    cache = TokenCache(
        size=options.token_cache_max_size,
        longest=timedelta(seconds=options.token_cache_max_duration),
    )
    tokens = ServiceAccountTokens(
        manager.client,
        cache=cache,
        object_level=options.feature_gates.get(GATE, False),
        default_account=default_account,
    )
    return Outside(http=http, cloud=Cloud(http, cache=cache), tokens=tokens, cache=cache)
