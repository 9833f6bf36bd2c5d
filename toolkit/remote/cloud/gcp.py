"""Google Cloud: logins for Artifact Registry, tokens for Cloud Storage, access to GKE.

There is one token for everything an identity may do, so it is shown to Google's own hosts only.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from toolkit.remote.cloud import clusters, web
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.gcptokens import GcpTokens
from toolkit.remote.cloud.identity import (
    Bearer,
    BucketPlace,
    ClusterAccess,
    ClusterName,
    Identity,
    Login,
    host_of,
    key_of,
)
from toolkit.remote.cloud.services import Services
from toolkit.remote.proxy import Proxy

_USER: Final = "oauth2accesstoken"
_REGISTRY: Final = re.compile(r"(?:[a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+-docker\.pkg\.dev")
_STORAGE: Final = re.compile(
    r"storage(?:\.[a-z0-9-]+\.rep)?\.googleapis\.com|(?:[a-z0-9-]+\.)storage\.googleapis\.com"
    r"|storage-[a-z0-9-]+\.p\.googleapis\.com"
)
_CLUSTER: Final = re.compile(r"projects/[a-z0-9:.-]+/locations/[a-z0-9-]+/clusters/[a-z0-9-]+")
_DESCRIPTION_LIFE: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Gcp:
    """The provider ``gcp``."""

    services: Services

    async def registry(self, host: str, who: Identity | None, proxy: Proxy | None) -> Login:
        """Log in to Artifact Registry or Container Registry."""
        if not _REGISTRY.fullmatch(host):
            raise ForeignHostError(f"'{host}' is not a registry of provider gcp")
        token = await GcpTokens(services=self.services).get(who, proxy=proxy)
        return Login(
            username=_USER, password=token.token, expires_at=token.expires_at, origin=token
        )

    async def bucket(self, place: BucketPlace, who: Identity | None, proxy: Proxy | None) -> Bearer:
        """Return a token for Cloud Storage, or for the emulator that the operator names."""
        endpoint = place.endpoint
        emulator = self.services.variable("STORAGE_EMULATOR_HOST")
        own = emulator and host_of(endpoint) == host_of(emulator)
        tls = not endpoint.startswith("http://")
        if not own and not (tls and _STORAGE.fullmatch(host_of(endpoint))):
            raise ForeignHostError(f"'{endpoint}' is not an endpoint of Google Cloud Storage")
        return await GcpTokens(services=self.services).get(who, proxy=proxy)

    async def git(self, url: str, who: Identity | None, proxy: Proxy | None) -> Login:  # noqa: ARG002
        """Refuse: Google serves no Git.

        Raises:
            ForeignHostError: always.
        """
        raise ForeignHostError(
            f"provider gcp has no Git at '{urlsplit(url).hostname}': use secretRef"
        )

    async def cluster(
        self, named: ClusterName, who: Identity | None, proxy: Proxy | None
    ) -> ClusterAccess:
        """Return the access to a GKE cluster (``projects/…/locations/…/clusters/<name>``)."""
        if not _CLUSTER.fullmatch(named.cluster):
            raise ForeignHostError(f"'{named.cluster}' is not the name of a GKE cluster")
        tokens = GcpTokens(services=self.services)

        async def describe() -> clusters.Description:
            token = await tokens.get(who, proxy=proxy)
            return await self._describe(named.cluster, token.token, proxy)

        key = ("gcp", key_of(who), named.cluster, proxy)
        description = await self.services.cache.get("cluster", key, describe)
        token = await tokens.get(who, proxy=proxy)
        return clusters.access(named, description, token=token.token, expires_at=token.expires_at)

    async def _describe(
        self, cluster: str, token: str, proxy: Proxy | None
    ) -> clusters.Description:
        purpose = f"cannot describe the GKE cluster '{cluster}'"
        url, plain = GcpTokens(services=self.services).endpoint("container")
        answer = web.decoded(
            await self.services.web.ask(
                "GET",
                f"{url}/v1/{cluster}",
                purpose=purpose,
                bearer=token,
                proxy=proxy,
                plain=plain,
            ),
            purpose=purpose,
        )
        encoded = web.text_field(answer, "masterAuth", "clusterCaCertificate", purpose=purpose)
        ca = clusters.pem(encoded, purpose=purpose)
        found = [(address, ca) for address in _addresses(answer)]
        if not found:
            raise CloudError(f"{purpose}: it has no endpoint")
        return clusters.Description(
            endpoints=(*found, *((name, None) for name in _dns(answer))),
            expires_at=self.services.now() + _DESCRIPTION_LIFE,
        )


def _addresses(answer: web.Json) -> list[str]:
    """Return the IP endpoints, the one that the cloud calls the endpoint first."""
    private = answer.get("privateClusterConfig")
    more = private if isinstance(private, dict) else {}
    named = (answer.get("endpoint"), more.get("publicEndpoint"), more.get("privateEndpoint"))
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def _dns(answer: web.Json) -> list[str]:
    """Return the DNS endpoint, whose certificate is Google's own."""
    config = answer.get("controlPlaneEndpointsConfig")
    dns = config.get("dnsEndpointConfig") if isinstance(config, dict) else None
    name = dns.get("endpoint") if isinstance(dns, dict) else None
    return [name] if isinstance(name, str) and name else []
