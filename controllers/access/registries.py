"""Credentials for a registry: from an object's Secret, its ServiceAccount or its cloud.

OCIRepository, HelmChart and ImageRepository share these rules. The order is that of Flux: first the
Secret that the object names, then the pull Secrets of the ServiceAccount, in which the most
specific entry applies. With another provider than ``generic``, the cloud issues the login instead.

1. A login applies only to its registry: a Secret without an entry for the registry has none.
2. A login of a cloud is sent only over TLS.
3. A login of a cloud that the registry refused is dropped from the cache.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from controllers.access import plainhttp
from toolkit.errors import StalledError
from toolkit.kube.secrets import Secrets
from toolkit.remote import proxy
from toolkit.remote.cloud.identity import Identity, Login
from toolkit.remote.http.http import AuthError, Endpoint, Http
from toolkit.remote.oci import dockerconfig
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry, RegistryAuthError, RegistryError, Tokens
from toolkit.remote.proxy import Proxy
from toolkit.remote.tls import certified

REASON: Final = "AuthenticationFailed"
GENERIC: Final = ("", "generic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The registry settings of an object: names of Secrets and accounts in its namespace."""

    namespace: str
    provider: str = "generic"
    secret: str = ""
    service_account: str = ""
    cert_secret: str = ""
    proxy_secret: str = ""
    insecure: bool = False


PullSecrets: TypeAlias = Callable[[str, str], Awaitable[tuple[str, ...]]]
"""Returns the pull Secrets of a ServiceAccount, given namespace and name."""

Identities: TypeAlias = Callable[[str, str], Awaitable[Identity | None]]
"""Returns the identity of a ServiceAccount at a cloud; ``None`` stands for this process."""


class Cloud(Protocol):
    """Gives logins for registries of cloud providers."""

    async def registry(
        self,
        provider: str,
        host: str,
        who: Identity | None = None,
        *,
        proxy: Proxy | None = None,
        own_ca: bool = False,
    ) -> Login:
        """Return a login for a registry, or raise a typed error."""
        ...

    def drop(self, credential: Login) -> bool:
        """Forget a login that was refused; tell whether another one may help."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Registries:
    """Opens registries for objects; ``plain_http`` is whether any may be without TLS."""

    http: Http
    tokens: Tokens
    secrets: Secrets
    pull_secrets: PullSecrets
    identity: Identities
    cloud: Cloud
    plain_http: bool = True

    @asynccontextmanager
    async def open(
        self,
        access: Access,
        repository: Repository,
        *,
        timeout: float,  # noqa: ASYNC109  # of each call to the registry, in seconds
    ) -> AsyncIterator[Registry]:
        """Yield the registry of a repository, with the credentials of the object.

        Raises:
            StalledError: the object asks for a forbidden option.
            TransientError: a Secret or an account cannot be read (reason AuthenticationFailed).
        """
        endpoint = await self._endpoint(access)
        login = None
        if access.provider not in GENERIC:
            endpoint, login = await self._cloud_login(access, repository, endpoint)
        else:
            endpoint = await self._secret_login(access, repository, endpoint)
        try:
            yield Registry(self.http, endpoint, tokens=self.tokens, timeout=timeout)
        except RegistryAuthError:
            if login is not None:
                self.cloud.drop(login)  # rule 3
            raise

    async def _endpoint(self, access: Access) -> Endpoint:
        """Return the endpoint with its CA, client certificate and proxy, without a login."""
        if access.insecure and not self.plain_http:
            raise plainhttp.refusal("spec.insecure asks for")
        endpoint = Endpoint(plain_http=access.insecure)
        if access.cert_secret:
            data = await self._read(access, access.cert_secret)
            endpoint = certified(endpoint, data, access.cert_secret)
        if access.proxy_secret:
            data = await self._read(access, access.proxy_secret)
            endpoint = replace(endpoint, proxy=Proxy.from_secret(data))
        return endpoint

    async def _secret_login(
        self, access: Access, repository: Repository, endpoint: Endpoint
    ) -> Endpoint:
        names = [access.secret] if access.secret else []
        if access.service_account:
            names += await self.pull_secrets(access.namespace, access.service_account)
        found = [await self._read(access, name) for name in names]
        if found and "username" in found[0] and dockerconfig.CONFIG_JSON not in found[0]:
            return _plain(endpoint, found[0])
        try:
            login = dockerconfig.login(found, repository)  # rule 1
        except AuthError as exc:
            shown = ", ".join(f"'{name}'" for name in names)
            raise AuthError(f"cannot sign in with Secret {shown}: {exc}") from exc
        return login.on(endpoint) if login else endpoint

    async def _cloud_login(
        self, access: Access, repository: Repository, endpoint: Endpoint
    ) -> tuple[Endpoint, Login | None]:
        if access.secret:
            return await self._secret_login(
                replace(access, service_account=""), repository, endpoint
            ), None
        if access.insecure:  # rule 2
            raise StalledError(
                f"spec.insecure cannot be used with spec.provider '{access.provider}': "
                "its credentials would be sent without encryption",
                reason="InvalidProviderConfiguration",
            )
        who = await self.identity(access.namespace, access.service_account)
        login = await self.cloud.registry(
            access.provider,
            repository.registry,
            who,
            proxy=endpoint.proxy,
            own_ca=endpoint.ca is not None,
        )
        return replace(endpoint, username=login.username, password=login.password), login

    async def _read(self, access: Access, name: str) -> Mapping[str, bytes]:
        return await self.secrets.read(access.namespace, name, reason=REASON)


@asynccontextmanager
async def in_time(seconds: float, what: str) -> AsyncIterator[None]:
    """Bound many calls together, of which each has its own deadline.

    Raises:
        RegistryError: ``what`` did not come in time.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as exc:
        raise RegistryError(f"{what} did not come within spec.timeout, {seconds:g} s") from exc


def _plain(endpoint: Endpoint, data: Mapping[str, bytes]) -> Endpoint:
    """Return the endpoint with a login as Helm users write it: ``username`` and ``password``."""
    username, password = proxy.text(data, "username"), proxy.text(data, "password")
    if not username or not password:
        raise AuthError("the secret has only one of 'username' and 'password': both are needed")
    return replace(endpoint, username=username, password=password)
