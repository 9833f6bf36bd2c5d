"""How Providers sign in with temporary tokens: as a ServiceAccount or GitHub App, or with a key.

1. No token is requested if the Secret has one, or the address has a key. Both together are refused.
2. Only Providers in the administrator's namespaces use the identity of this process.
3. Token services are reached by the rules of the Provider: a tenant's App and proxy lead to public
   addresses only.
4. A token is sent to hosts of its service only (``toolkit.remote.cloud``). A GitHub token is the
   App owner's, who names the host.
5. A token that a service refuses is dropped, so that the next attempt gets another one.
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
"""Where events go, by the type of Provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A token that is lent, and how it is given back."""

    token: str = field(repr=False)
    give_back: Callable[[], bool]


Borrow = Callable[[], Awaitable[Loan]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """For what a token is wanted: a Provider, as far as it is read.

    ``account`` is the ServiceAccount that it names, ``data`` what its Secret holds.
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
        """Return what lends a token, None where there is nothing to lend.

        Secrets and accounts are read here; nobody outside the cluster is asked.

        Raises:
            StalledError: fields contradict each other, or ask for what is not allowed.
            TransientError: an account or a Secret is missing, or not what it must be.
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
