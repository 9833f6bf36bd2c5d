"""Temporary tokens for Providers: of a ServiceAccount, a GitHub App, or a key file.

1. No token is requested if the Secret has one, or the address has a key. Both together are refused.
2. Only Providers in the administrator's namespaces use the identity of this process.
3. Requests to token services obey the limits of the Provider: the App and the proxy of a tenant may
   have public addresses only.
4. A token is sent only to hosts of its service (``toolkit.remote.cloud``). For a GitHub App, its
   owner chooses the host.
5. A token that a service refuses is dropped, so that the next attempt requests a new one.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from controllers.notification.sending.keyfiles import KeyFiles
from controllers.notification.services.service import Target
from controllers.notification.services.streams import eventhub, pubsub
from toolkit.errors import StalledError
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.notification import demands
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.cloud.identity import Bearer
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError
from toolkit.remote.git.github import GitHubApp, GitHubTokens

_REASON: Final = "InvalidProvider"
_PUBSUB: Final = "googlepubsub"
_URLS: Final[Mapping[str, Callable[[Target], str]]] = MappingProxyType(
    {
        "azureeventhub": lambda target: eventhub.hub(target).url,
        "azuredevops": lambda target: target.address,
        _PUBSUB: pubsub.url,
    }
)
"""The URL that events are sent to, by type of Provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A temporary token; ``give_back`` drops it from its cache."""

    token: str = field(repr=False)
    give_back: Callable[[], bool]


Borrow = Callable[[], Awaitable[Loan]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The fields of a Provider that select a token.

    ``account`` is the name of its ServiceAccount; ``data`` is the content of its Secret.
    """

    target: Target
    endpoint: Endpoint
    account: str
    data: Mapping[str, bytes] = field(repr=False)
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIns:
    """Lends tokens."""

    cloud: Cloud
    github: GitHubTokens
    accounts: ServiceAccountTokens
    keys: KeyFiles

    async def borrowing(self, asked: Asked) -> Borrow | None:
        """Return the function that requests a token; None if the Provider needs none.

        This reads Secrets and accounts; no request leaves the cluster.

        Raises:
            StalledError: fields contradict each other, or ask for a forbidden option.
            TransientError: an account or a Secret is missing or invalid.
        """
        target = asked.target
        demand = demands.DEMANDS[target.type]
        if demand.app and not target.token and demands.APP in asked.data:
            return self._app(asked)
        if not demand.account:
            return None
        keyed = bool(target.token) or demands.has_key(target.address)
        if keyed and asked.account:  # rule 1
            raise AuthError(
                "the secret holds credentials, and spec.serviceAccountName names an account:"
                " remove one of the two"
            )
        if target.type == _PUBSUB and target.token:
            read = self.keys.reading(target.token, asked.endpoint, timeout=asked.timeout)
            return _lending(read, self.cloud.drop)
        return None if keyed else await self._account(asked)

    def _app(self, asked: Asked) -> Borrow:
        app = GitHubApp.from_secret(asked.data)

        async def borrow() -> Loan:
            way = asked.endpoint  # rule 3
            auth = await self.github.auth(app, way=way, timeout=asked.timeout)
            return Loan(token=auth.password or "", give_back=lambda: self.github.drop(auth))

        return borrow

    async def _account(self, asked: Asked) -> Borrow:
        target, endpoint = asked.target, asked.endpoint
        who = await self.accounts.identity(target.namespace, asked.account)
        if who is None and not endpoint.private:  # rule 2
            raise StalledError(
                f"'{target.type}' needs a token: write it as 'token' into the Secret of"
                " spec.secretRef, or name a ServiceAccount in spec.serviceAccountName; the"
                " controller's own identity is for Providers of its own namespace",
                reason=_REASON,
            )
        cloud = self.cloud
        if endpoint.proxy is not None and not endpoint.private:  # rule 3
            cloud = cloud.outside()

        async def token() -> Bearer:
            url = _URLS[target.type](target)  # rule 4
            return await cloud.stream(
                target.type, url, who, proxy=endpoint.proxy, own_ca=endpoint.ca is not None
            )

        return _lending(token, cloud.drop)


def _lending(token: Callable[[], Awaitable[Bearer]], drop: Callable[[Bearer], bool]) -> Borrow:
    async def borrow() -> Loan:
        lent = await token()
        return Loan(token=lent.token, give_back=lambda: drop(lent))

    return borrow
