"""The way in for ``spec.provider``: credentials for registries, buckets, Git and clusters.

Anyone who uses one and is refused gives it back with ``drop``, and asks once more if that says so.
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
    """Signs in as an ``Identity``, or as this process where that is ``None``.

    ``trust`` is the operator's CA and proxy towards the clouds; ``environment`` says who this
    process is. An object's ``proxy`` is used towards them, its CA never (see ``web``). ``own_ca``
    is whether it brings a CA for the server that is to get the credential: none of this process's
    is given then. ``services`` are for sign-ins without a method here (key services).
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
            CloudError: the cloud gives none.
            ForeignHostError: the registry is not the provider's, or its certificate is not to be
                one that everybody trusts.
        """
        _check(who, own_ca=own_ca)
        return await self._provider(provider).registry(host.lower(), who, proxy)

    async def bucket(  # noqa: PLR0913  # which bucket, and who asks
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
        """Return keys for S3, else a bearer token; ``endpoint`` is a URL or a host.

        ``plain_http`` is whether a host is asked without TLS.

        Raises:
            CloudError: the cloud gives none.
            ForeignHostError: the endpoint, the region or ``sts`` is not the provider's, or it is
                not to prove who it is with a certificate that everybody trusts.
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
            CloudError: the cloud gives none.
            ForeignHostError: the repository is not the provider's, or its certificate is not to be
                one that everybody trusts.
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
        """Return a token to send events with, for a type of Provider; ``url`` is where they go.

        Raises:
            CloudError: the cloud gives none.
            ForeignHostError: the URL is not the provider's, or its certificate is not to be one
                that everybody trusts.
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
        """Return where a cluster's API server is, and a token for it.

        Raises:
            CloudError: the cloud gives none, or does not know the address.
            ForeignHostError: the name is not one of the provider's, or it is to prove who it is
                with another CA than the cloud names.
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
    """Keep this process' identity from those who choose both the way and whom to trust on it."""
    if who is None and own_ca:
        raise ForeignHostError(
            "a CA of the object's own does not go with the identity of this process: name an"
            " account in serviceAccountName, or leave the CA out"
        )
