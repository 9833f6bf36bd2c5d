"""Tokens to send events with: to Azure Event Hubs and DevOps, and to Google Pub/Sub.

A token is sent to hosts of its service only: each host that receives a bearer token can use it.
Google gives one token for everything that an identity may do.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from toolkit.remote.cloud.azure import Azure
from toolkit.remote.cloud.azuretokens import AzureTokens
from toolkit.remote.cloud.errors import ForeignHostError
from toolkit.remote.cloud.gcptokens import GcpTokens
from toolkit.remote.cloud.identity import Bearer, Identity, host_of
from toolkit.remote.cloud.services import Services
from toolkit.remote.proxy import Proxy

Token = Callable[[Services, str, Identity | None, Proxy | None], Awaitable[Bearer]]

PUBSUB: Final = "https://pubsub.googleapis.com"
_HUBS: Final = "https://eventhubs.azure.net/.default"


async def _hub(services: Services, url: str, who: Identity | None, proxy: Proxy | None) -> Bearer:
    tokens = AzureTokens(services=services)
    suffix = (await tokens.environment()).hubs
    host = host_of(url)
    if not url.startswith("https://") or not host.endswith(f".{suffix}"):
        raise ForeignHostError(
            f"'{host}' is not a namespace of Event Hubs, which are below {suffix}: correct"
            " spec.address and spec.channel"
        )
    return await tokens.get(who, scope=_HUBS, proxy=proxy)


async def _devops(
    services: Services, url: str, who: Identity | None, proxy: Proxy | None
) -> Bearer:
    return await Azure(services).git(url, who, proxy)


async def _pubsub(
    services: Services, url: str, who: Identity | None, proxy: Proxy | None
) -> Bearer:
    if not url.startswith(f"{PUBSUB}/"):
        raise ForeignHostError(f"'{host_of(url)}' is not Google Pub/Sub")
    return await GcpTokens(services=services).get(who, proxy=proxy)


TOKENS: Final[Mapping[str, Token]] = MappingProxyType(
    {"azureeventhub": _hub, "azuredevops": _devops, "googlepubsub": _pubsub}
)
"""By the type of Provider."""
