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
    """Clients for servers outside the cluster.

    ``tokens`` issues tokens of ServiceAccounts for clouds and other clusters. ``cache`` holds the
    credentials that these returned.
    """

    http: Http
    cloud: Cloud
    tokens: ServiceAccountTokens
    cache: TokenCache


async def connect(manager: Manager, options: Options, *, default_account: str = "") -> Outside:
    """Create the clients; they are closed with the process.

    Objects without a service account authenticate at clouds as ``default_account``; if that is
    empty, they authenticate as this process.
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
