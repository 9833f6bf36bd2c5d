"""Clients for the clusters that ``spec.kubeConfig`` names.

Clients are kept by the digest of their configuration, so a changed Secret makes a new client and a
hundred objects share one. Clients in use stay open; of the others the least recently used are
closed. Tenants' kubeconfigs are data: see ``config.from_untrusted_kubeconfig``.
"""

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

from crds.meta import KubeConfigReference
from toolkit.errors import TransientError
from toolkit.kube import config, errors
from toolkit.kube.client import Client
from toolkit.kube.secrets import CONFIG_MAP, SECRET, Secrets
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.identity import ClusterAccess, ClusterName, Identity, key_of
from toolkit.remote.dialling import Reach, literal_within

_TOKEN_TIMEOUT: Final = 60.0
_MAX_BODY: Final = 16 << 20
"""Limit of an answer in bytes, because a server may be hostile."""
_UNREAD: Final = "ReconciliationFailed"
"""Flux's reason where the Secret, the ConfigMap or the account of a cluster cannot be read."""
_GENERIC: Final = "generic"


class Clouds(Protocol):
    """Knows the clusters of clouds (``toolkit.remote.cloud.cloud.Cloud``)."""

    async def cluster(
        self, provider: str, named: ClusterName, who: Identity | None = None
    ) -> ClusterAccess:
        """Return address and credentials of a cluster."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Flags for clusters that a ConfigMap names without naming an account.

    ``shared_identity`` allows the identity of this process at clusters of cloud providers. Then a
    user who can write a Kustomization can access every cluster that this process can access.
    """

    default_service_account: str = ""
    shared_identity: bool = False

    def account(self, name: str, values: Mapping[str, str]) -> str:
        """Return the account for the ConfigMap ``name``; empty means the identity of this process.

        Raises:
            KubeConfigError: no account is named, and the identity of this process is not allowed.
        """
        account = values.get("serviceAccountName") or self.default_service_account
        # Never at an address that a tenant chose.
        shared = self.shared_identity and values.get("provider", "") != _GENERIC
        if not account and not shared:
            raise errors.KubeConfigError(
                f"ConfigMap {name}: serviceAccountName is missing, and the controller does "
                "not sign in to clusters as itself: name a ServiceAccount of this namespace there "
                "(the operator may set --default-kubeconfig-service-account for all ConfigMaps "
                "without one)"
            )
        return account


_NOBODY: Final = Entry()


class RemoteClients:
    """Opens and caches the clients of remote clusters. Close it with the process.

    ``size`` limits the number of unused clients.
    """

    def __init__(  # noqa: PLR0913 - the flags of spec.kubeConfig
        self,
        client: Client,
        *,
        cloud: Clouds | None = None,
        tokens: ServiceAccountTokens | None = None,
        allow_insecure_tls: bool = False,
        entry: Entry = _NOBODY,
        size: int = 100,
    ) -> None:
        self._secrets = Secrets(client)
        self._cloud = cloud
        self._tokens = tokens or ServiceAccountTokens(client, cache=TokenCache())
        self._allow_insecure_tls = allow_insecure_tls
        self._entry = entry
        self._size = size
        self._cache: OrderedDict[str, Client] = OrderedDict()
        self._users: Counter[Client] = Counter()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, including those in use, and open no more."""
        self._closed = True
        async with asyncio.TaskGroup() as group:
            while self._cache:
                group.create_task(self._cache.popitem()[1].close())

    def hold(self, client: Client) -> None:
        """Keep a client open after its block, because watches use it."""
        self._users[client] += 1

    def release(self, client: Client) -> None:
        """End one ``hold``; the client may make room from now on."""
        self._users[client] -= 1
        if not self._users[client]:
            del self._users[client]

    @asynccontextmanager
    async def client(self, namespace: str, ref: KubeConfigReference) -> AsyncIterator[Client]:
        """Yield the client for a reference in ``namespace``; it stays open for the block.

        Raises:
            TransientError: the Secret, the ConfigMap or the ServiceAccount does not exist, or the
                cloud provider denies access.
            StalledError: the reference to a cluster of a cloud provider is invalid.
            KubeConfigError: the content is invalid, or asks for something that is not allowed.
        """
        client = await self._found(namespace, ref)
        try:
            yield client
        finally:
            self.release(client)
            await self._make_room()

    async def _found(self, namespace: str, ref: KubeConfigReference) -> Client:
        """Return the client, held."""
        if ref.secret_ref is not None:
            name = ref.secret_ref.name
            try:
                data = await self._secrets.data(SECRET, namespace, name, reason=_UNREAD)
            except TransientError as error:
                context = f"unable to read KubeConfig secret '{namespace}/{name}' error"
                raise error.within(context) from error.__cause__
            text = kubeconfig(data.values, ref.secret_ref.key, name)
            return self._held(_digest(text), lambda: self._from_kubeconfig(text))
        if ref.config_map_ref is not None:
            name = ref.config_map_ref.name
            data = await self._secrets.data(CONFIG_MAP, namespace, name, reason=_UNREAD)
            values = texts(data.values)
            if values.get("provider", "") == _GENERIC:
                return await self._generic(namespace, name, values)
            return await self._of_cloud(namespace, name, values)
        raise errors.KubeConfigError("kubeConfig names neither a Secret nor a ConfigMap")

    def _held(self, digest: str, make: Callable[[], config.ClusterConfig]) -> Client:
        if self._closed:
            raise errors.ApiError(
                "this process is stopping, and opens no connections to other clusters"
            )
        client = self._cache.pop(digest, None) or _opened(make())
        self._cache[digest] = client
        self.hold(client)
        return client

    async def _make_room(self) -> None:
        """Close the least recently used clients that are too many."""
        # One at a time: while one is being closed, the next may come into use.
        while len(idle := self._idle()) > self._size:
            await self._cache.pop(idle[0]).close()

    def _idle(self) -> list[str]:
        return [digest for digest, client in self._cache.items() if client not in self._users]

    def _from_kubeconfig(self, text: bytes) -> config.ClusterConfig:
        return config.from_untrusted_kubeconfig(
            text.decode(errors="replace"), allow_insecure_tls=self._allow_insecure_tls
        )

    async def _generic(self, namespace: str, name: str, values: Mapping[str, str]) -> Client:
        """Enter a cluster that trusts our issuer, as a ServiceAccount of the namespace.

        Never as this process: the address is a tenant's.
        """
        address = values.get("address", "")
        if not address.startswith("https://"):
            raise errors.KubeConfigError(f"ConfigMap {name}: address must be an https URL")
        account = self._entry.account(name, values)
        lines = [line.strip() for line in values.get("audiences", "").splitlines()]
        audiences = tuple(line for line in lines if line) or (address,)
        who = await self._tokens.account(namespace, account, reason=_UNREAD)

        async def ask() -> str:
            return (await self._tokens.bearer(who, audiences)).token

        server, ca = address.rstrip("/"), _ca(values)
        digest = _digest(_GENERIC, server, ca, audiences, who.key)
        return self._held(
            digest, lambda: config.ClusterConfig(server=server, ca=ca, token=_Asked(ask))
        )

    async def _of_cloud(self, namespace: str, name: str, values: Mapping[str, str]) -> Client:
        """Enter a cluster that its cloud tells where to find, and gives a token for."""
        provider, cloud = values.get("provider", ""), self._cloud
        if provider not in {"aws", "azure", "gcp"} or cloud is None:
            raise errors.KubeConfigError(
                f"ConfigMap {name}: provider {provider!r} is not supported"
            )
        if not values.get("cluster"):
            raise errors.KubeConfigError(
                f"ConfigMap {name}: 'cluster' is missing: set it to the cluster's name in the cloud"
            )
        named = ClusterName(
            cluster=values["cluster"], address=values.get("address", ""), ca=_ca(values)
        )
        account = self._entry.account(name, values)
        who = None
        if account:
            who = await self._tokens.identity(namespace, account, reason=_UNREAD)
        access = await cloud.cluster(provider, named, who)

        async def ask() -> str:
            return (await cloud.cluster(provider, named, who)).token

        digest = _digest(provider, named.cluster, access.server, access.ca, key_of(who))
        return self._held(
            digest,
            lambda: config.ClusterConfig(server=access.server, ca=access.ca, token=_Asked(ask)),
        )


def _opened(cluster: config.ClusterConfig) -> Client:
    """Open a client that asks no metadata service, neither as server nor as proxy."""
    for what, url in (("server", cluster.server), ("proxy", cluster.proxy or "")):
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError as exc:
            raise errors.KubeConfigError(
                f"the address of the cluster's {what} is not a URL"
            ) from exc
        if url and parts.scheme not in {"http", "https"}:
            raise errors.KubeConfigError(f"the cluster's {what} must have an http or https URL")
        if not literal_within(host, Reach.NOT_METADATA):
            raise errors.KubeConfigError(
                f"the address of the cluster's {what} is a metadata service's, which is not allowed"
            )
    return Client.open(cluster, max_body=_MAX_BODY, reach=Reach.NOT_METADATA)


def texts(values: Mapping[str, bytes]) -> dict[str, str]:
    """Return a ConfigMap's data as text."""
    return {key: value.decode(errors="replace") for key, value in values.items()}


def kubeconfig(values: Mapping[str, bytes], key: str, name: str) -> bytes:
    """Return the kubeconfig in a Secret's data: the named key, else ``value``, ``value.yaml``.

    Raises:
        KubeConfigError: the key does not exist.
    """
    # meta.KubeConfigReference
    for candidate in (key,) if key else ("value", "value.yaml"):
        if candidate in values:
            return values[candidate]
    raise errors.KubeConfigError(f"Secret {name} has no kubeconfig under {key or 'value'!r}")


class _Asked:
    """A token that a coroutine obtains for callers in threads."""

    def __init__(self, ask: Callable[[], Awaitable[str]]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> str:
        """Return a valid token; called in a thread, so the loop can do the asking."""

        async def ask() -> str:
            async with asyncio.timeout(_TOKEN_TIMEOUT):
                return await self._ask()

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _ca(values: Mapping[str, str]) -> bytes | None:
    return values["ca.crt"].encode() if values.get("ca.crt") else None
