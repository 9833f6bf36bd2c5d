"""Credentials for ``spec.provider``: for registries, buckets, Git servers and clusters.

If a server refuses a credential, call ``drop``, and request a new one if ``drop`` returns true.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from toolkit.remote import cloud
from toolkit.remote.cloud import streams
from toolkit.remote.cloud.cache import Expiring, TokenCache
from toolkit.remote.cloud.errors import ForeignHostError
from toolkit.remote.cloud.identity import (
    Bearer,
    BucketPlace,
    ClusterAccess,
    ClusterName,
    Identity,
    Login,
    SessionKeys,
)
from toolkit.remote.cloud.provider import Provider
from toolkit.remote.cloud.services import Services
from toolkit.remote.cloud.web import Web
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.proxy import Proxy

_ANYBODY: Final = Endpoint()


class Cloud:
    """Requests credentials as an ``Identity``, or as this process if it is None.

    - ``trust`` is the operator's CA and proxy for the clouds.
    - ``environment`` determines the identity of this process.
    - An object's ``proxy`` is used for requests to the clouds, but never its CA (see ``web``).
    - ``own_ca`` tells that the object has a CA for the server that will get the credential. Then no
      credential of this process is given.
    - ``services`` are for credentials without a method here (key services).
    """

    def __init__(
        self,
        http: Http,
        *,
        cache: TokenCache,
        environment: Mapping[str, str] = os.environ,
        trust: Endpoint = _ANYBODY,
    ) -> None:
        self._http = http
        self._cache = cache
        self._environment = environment
        self._trust = trust
        self.services = Services(
            web=Web(http=http, trust=trust), cache=cache, environment=environment, now=cache.now
        )
        self._providers = {name: make(self.services) for name, make in cloud.PROVIDERS.items()}

    def outside(self) -> "Cloud":
        """Return the same for objects whose proxies must have public addresses."""
        trust = replace(self._trust, private=False)
        return Cloud(self._http, cache=self._cache, environment=self._environment, trust=trust)

    async def registry(
        self,
        provider: str,
        host: str,
        who: Identity | None = None,
        *,
        proxy: Proxy | None = None,
        own_ca: bool = False,
    ) -> Login:
        """Return a login for a registry; ``host`` may have a port.

        Raises:
            CloudError: the cloud issues none.
            ForeignHostError: the registry is not the provider's, or the object has its own CA for
                it.
        """
        _check(who, own_ca=own_ca)
        return await self._provider(provider).registry(host.lower(), who, proxy)

    async def bucket(  # noqa: PLR0913  # the bucket, and the identity
        self,
        provider: str,
        endpoint: str,
        who: Identity | None = None,
        *,
        region: str = "",
        sts: str = "",
        proxy: Proxy | None = None,
        own_ca: bool = False,
        plain_http: bool = False,
    ) -> SessionKeys | Bearer:
        """Return keys for S3, or a bearer token; ``endpoint`` is a URL or a host.

        ``plain_http`` allows a host without TLS.

        Raises:
            CloudError: the cloud issues none.
            ForeignHostError: the endpoint, the region or ``sts`` is not the provider's, or the
                object has its own CA for it.
        """
        place = BucketPlace(endpoint=endpoint, region=region, sts=sts)
        found = await self._provider(provider).bucket(place, who, proxy)
        if isinstance(found, Bearer):
            _check(who, own_ca=own_ca)
            if plain_http and "://" not in endpoint:
                raise ForeignHostError(
                    f"the credentials of provider '{provider}' are not sent without encryption:"
                    " leave insecure out"
                )
        return found

    async def git(
        self,
        provider: str,
        url: str,
        who: Identity | None = None,
        *,
        proxy: Proxy | None = None,
        own_ca: bool = False,
    ) -> Login | Bearer:
        """Return credentials for a repository.

        Raises:
            CloudError: the cloud issues none.
            ForeignHostError: the repository is not the provider's, or the object has its own CA for
                it.
        """
        _check(who, own_ca=own_ca)
        return await self._provider(provider).git(url, who, proxy)

    async def stream(
        self,
        kind: str,
        url: str,
        who: Identity | None = None,
        *,
        proxy: Proxy | None = None,
        own_ca: bool = False,
    ) -> Bearer:
        """Return a token to send events for a type of Provider to ``url``.

        Raises:
            CloudError: the cloud issues none.
            ForeignHostError: the URL is not the provider's, or the object has its own CA for it.
        """
        _check(who, own_ca=own_ca)
        return await streams.TOKENS[kind](self.services, url, who, proxy)

    async def cluster(
        self,
        provider: str,
        named: ClusterName,
        who: Identity | None = None,
        *,
        proxy: Proxy | None = None,
    ) -> ClusterAccess:
        """Return the address of a cluster's API server, and a token for it.

        Raises:
            CloudError: the cloud issues none, or the cluster does not have the address.
            ForeignHostError: the name is not one of the provider's, or the object has its own CA
                for it.
        """
        _check(who, own_ca=named.ca is not None)
        return await self._provider(provider).cluster(named, who, proxy)

    def drop(self, credential: Expiring) -> bool:
        """Forget a credential that was refused; tell whether another one may help."""
        if isinstance(credential, Login) and credential.origin:
            credential = credential.origin
        return self._cache.drop(credential)

    def _provider(self, name: str) -> Provider:
        try:
            return self._providers[name]
        except KeyError:
            known = ", ".join(self._providers)
            raise ForeignHostError(f"provider '{name}' is not one of {known}") from None


def _check(who: Identity | None, *, own_ca: bool) -> None:
    """Refuse this process' identity to objects that choose both the server and its CA."""
    if who is None and own_ca:
        raise ForeignHostError(
            "a CA of the object's own does not go with the identity of this process: name an"
            " account in serviceAccountName, or leave the CA out"
        )
